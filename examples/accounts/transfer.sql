-- Two accounts in one transaction, when other programs change accounts under the same
-- locks, in other databases or outside of PostgreSQL.  For psql.

CREATE TABLE IF NOT EXISTS account (id int PRIMARY KEY, balance int NOT NULL);

-- All keys or none, so two transfers that go opposite ways do not wait for each other.
-- The locks are given back when the commit is visible, or at the rollback.  The fence
-- table refuses a transfer whose session was stopped until somebody else had the locks.
CREATE OR REPLACE PROCEDURE transfer(debtor int, creditor int, amount int)
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM redis_multi_xact_lock(ARRAY['account:' || debtor, 'account:' || creditor]);
    PERFORM redis_fenced_xact_lock('account:' || least(debtor, creditor));
    PERFORM redis_fenced_xact_lock('account:' || greatest(debtor, creditor));

    -- A statement of its own: it sees what the last holder has committed.
    UPDATE account SET balance = balance - amount WHERE id = debtor AND balance >= amount;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'account % has less than %', debtor, amount;
    END IF;
    UPDATE account SET balance = balance + amount WHERE id = creditor;
END $$;
