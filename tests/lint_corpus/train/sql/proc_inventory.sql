create or replace procedure inventory.apply_day(p_day date)
language plpgsql
as $$
begin
    delete from inventory.daily where day = p_day;
    insert into inventory.daily (day, sku, qty)
    select p_day, sku, sum(qty)
    from inventory.movement
    where moved_on = p_day
    group by sku;
end;
$$;
