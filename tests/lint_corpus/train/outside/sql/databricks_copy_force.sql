COPY INTO bronze.sensor
FROM '/mnt/landing/sensor'
FILEFORMAT = PARQUET
COPY_OPTIONS ('force' = 'true');
