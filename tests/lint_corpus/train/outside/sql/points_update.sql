-- monthly bonus
UPDATE loyalty
SET points = points + 100, note = note || ' bonus'
WHERE tier = 'gold';

UPDATE customers SET email = lower(trim(email)), updated_at = now() WHERE email <> lower(trim(email));
