import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;

import org.redisson.Redisson;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/**
 * Builds a report, while no other service does.  The first part locks with Redisson.  The second
 * part takes the same lock in SQL, in the transaction that it protects.  So does any session that
 * calls redis_lock('java-report').
 *
 * <pre>java ReportService.java JDBC_URL</pre>
 * REDIS_URL says where Redis is.
 */
public class ReportService {
    public static void main(String[] args) throws Exception {
        String name = "java-report";
        String redis = System.getenv().getOrDefault("REDIS_URL", "redis://localhost:6379");
        Config config = new Config();
        config.useSingleServer().setAddress(redis).setConnectionMinimumIdleSize(1)
            .setSubscriptionConnectionMinimumIdleSize(1);
        RedissonClient redisson = Redisson.create(config);

        try (Connection connection = DriverManager.getConnection(args[0])) {
            withRedisson(redisson.getLock(name), connection);
            inTransaction(connection, name);
        } finally {
            redisson.shutdown();
        }
    }

    /** Holds the lock around a transaction: it is renewed, and released after the commit. */
    static void withRedisson(RLock lock, Connection connection) throws SQLException {
        if (!lock.tryLock()) {
            System.out.println("busy");
            lock.lock();
        }
        try {
            buildReport(connection);        // autocommit: it is committed
            System.out.println("built");
        } finally {
            lock.unlock();
        }
    }

    /** The lock of the transaction, which cannot commit if it was lost */
    static void inTransaction(Connection connection, String name) throws SQLException {
        connection.setAutoCommit(false);
        // Without "::interval" there is no such function: setString sends a varchar.
        try (PreparedStatement lock = connection.prepareStatement(
                "SELECT redis_try_xact_lock(?, ?::interval)")) {
            lock.setString(1, name);
            lock.setString(2, "1 min");
            try (ResultSet result = lock.executeQuery()) {
                result.next();
                if (!result.getBoolean(1)) {
                    throw new SQLException("not within a minute");
                }
            }
            buildReport(connection);
            connection.commit();            // releases the lock
            System.out.println("built in a transaction");
        } catch (SQLException e) {
            connection.rollback();          // 40001: the lock was lost; try it again
            throw e;
        }
    }

    static void buildReport(Connection connection) throws SQLException {
        try (PreparedStatement insert = connection.prepareStatement(
                "INSERT INTO service_report (made_by) VALUES (?)")) {
            insert.setString(1, "java");
            insert.executeUpdate();
        }
    }
}
