import java.sql.Connection;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;

import com.zaxxer.hikari.HikariConfig;
import com.zaxxer.hikari.HikariDataSource;

/**
 * What docs/drivers.md says of HikariCP: what a lock that is not given back becomes, and the
 * way to give it back.
 *
 * <pre>java Pool.java JDBC_URL</pre>
 */
public class Pool {
    public static void main(String[] args) throws SQLException {
        HikariConfig config = new HikariConfig();
        config.setJdbcUrl(args[0]);
        config.setMaximumPoolSize(1);
        config.setMinimumIdle(1);
        config.setConnectionTimeout(120_000);
        config.setValidationTimeout(60_000);
        config.setMaxLifetime(0);

        try (HikariDataSource pool = new HikariDataSource(config)) {
            try (Connection connection = pool.getConnection();
                    Statement statement = connection.createStatement()) {
                statement.execute("SELECT redis_lock('left')");
            }
            System.out.println("left in the pool: " + locks(pool));
            try (Connection connection = pool.getConnection();
                    Statement statement = connection.createStatement()) {
                statement.execute("SELECT redis_unlock_all()");
            }

            try (Connection connection = pool.getConnection();
                    Statement statement = connection.createStatement()) {
                connection.setAutoCommit(true);
                statement.execute("SELECT redis_lock('nightly-report')");
                try {
                    System.out.println("at work: " + locks(statement));
                    throw new SQLException("a failure");
                } finally {
                    statement.execute("SELECT redis_unlock_all()");
                }
            } catch (SQLException e) {
                System.out.println(e.getMessage());
            }
            System.out.println("left in the pool: " + locks(pool));
        }
    }

    static String locks(HikariDataSource pool) throws SQLException {
        try (Connection connection = pool.getConnection();
                Statement statement = connection.createStatement()) {
            return locks(statement);
        }
    }

    static String locks(Statement statement) throws SQLException {
        try (ResultSet result = statement.executeQuery(
                "SELECT coalesce(string_agg(key, ' '), 'nothing') FROM redis_locks"
                + " WHERE pid = pg_backend_pid()")) {
            result.next();
            return result.getString(1);
        }
    }
}
