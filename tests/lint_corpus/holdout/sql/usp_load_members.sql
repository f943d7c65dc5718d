CREATE TABLE dbo.member_event (
    member_event_id INT IDENTITY(1,1) PRIMARY KEY,
    member_guid UNIQUEIDENTIFIER NOT NULL,
    member_no VARCHAR(20) NOT NULL,
    event_type VARCHAR(20) NOT NULL,
    created DATETIME DEFAULT GETDATE()
);
GO

CREATE PROCEDURE dbo.usp_load_members
AS
BEGIN
    SET NOCOUNT ON;

    INSERT INTO dbo.member_event (member_guid, member_no, event_type)
    SELECT NEWID(), s.member_no, s.event_type
    FROM stg.member s
    WHERE CAST(s.changed AS DATE) = CAST(GETDATE() - 1 AS DATE);

    UPDATE dbo.load_state SET last_run = GETDATE() WHERE job = 'members';
END
GO
