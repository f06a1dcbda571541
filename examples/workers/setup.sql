-- A queue of mails on each of several servers, and a mail relay that stands no more than
-- two at a time, wherever they come from.  For psql.

CREATE TABLE IF NOT EXISTS mail (
    id int PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    recipient text NOT NULL,
    begun timestamptz,
    sent timestamptz
);

-- How many at a time: said once for all servers; who comes later changes nothing.
SELECT redis_permit_init('mail relay', 2);

-- Stands for the call of the relay
CREATE OR REPLACE FUNCTION send_mail(recipient text) RETURNS void
LANGUAGE sql AS 'SELECT pg_sleep(0.02)';

-- Sends what there is.  Any number of sessions of any server may do this: a mail is one
-- session's by its row lock, and a permit one session's until its commit.
CREATE OR REPLACE PROCEDURE send_mails()
LANGUAGE plpgsql AS $$
DECLARE
    next mail;
BEGIN
    LOOP
        PERFORM redis_permit_xact_lock('mail relay');
        SELECT * INTO next FROM mail WHERE sent IS NULL
            ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED;
        EXIT WHEN NOT FOUND;
        UPDATE mail SET begun = clock_timestamp() WHERE id = next.id;
        PERFORM send_mail(next.recipient);
        UPDATE mail SET sent = clock_timestamp() WHERE id = next.id;
        COMMIT;             -- gives the permit back
    END LOOP;
END $$;
