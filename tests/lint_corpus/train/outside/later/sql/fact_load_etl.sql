/* Synapse dedicated pool */
DECLARE @LoadDate DATETIME = GETDATE();

INSERT INTO dw.FactSales (SalesKey, DateKey, CustomerKey, Amount, LoadDate)
SELECT NEXT VALUE FOR dw.SalesKeySeq,
       d.DateKey,
       c.CustomerKey,
       s.Amount,
       @LoadDate
FROM stg.Sales s
JOIN dw.DimDate d ON d.[Date] = s.SaleDate
JOIN dw.DimCustomer c ON c.CustomerId = s.CustomerId AND c.IsCurrent = 1
WHERE NOT EXISTS (SELECT 1 FROM dw.FactSales f WHERE f.SourceId = s.SourceId);

UPDATE dw.DimProduct
SET StockOnHand = p.StockOnHand - x.Sold
FROM dw.DimProduct p
JOIN (SELECT ProductId, SUM(Quantity) AS Sold FROM stg.Sales GROUP BY ProductId) x ON x.ProductId = p.ProductId;
