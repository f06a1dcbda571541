import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.Scanner;

import com.zaxxer.hikari.HikariConfig;
import com.zaxxer.hikari.HikariDataSource;
import org.springframework.dao.DataAccessException;
import org.springframework.dao.TransientDataAccessException;
import org.springframework.jdbc.core.JdbcTemplate;

/**
 * What HikariCP and Spring do with an error: is the connection to PostgreSQL kept, and is the
 * error one of those that Spring's users repeat?
 *
 * <pre>java Errors.java JDBC_URL</pre>
 *
 * Runs each line of the standard input, until an empty one, as a statement, and prints its SQLSTATE, "kept" or
 * "closed", and Spring's exception with "repeated" or "not repeated"; "not translated" if it has
 * none for that code.  A line that begins with "plain " is run without a pool: then it is the
 * exception of the JDBC driver.
 */
public class Errors {
    public static void main(String[] args) throws SQLException {
        HikariConfig config = new HikariConfig();
        config.setJdbcUrl(args[0]);
        config.setMaximumPoolSize(1);
        config.setConnectionTimeout(120_000);
        config.setValidationTimeout(60_000);
        config.setMaxLifetime(0);

        HikariDataSource pool = new HikariDataSource(config);
        Scanner lines = new Scanner(System.in);
        for (String sql = lines.nextLine(); !sql.isEmpty(); sql = lines.nextLine()) {
            System.out.println(sql.startsWith("plain ") ? plain(args[0], sql.substring(6)) : outcome(pool, sql));
            System.out.flush();
        }
        // To close the pool may take as long as to connect.
        System.exit(0);
    }

    static String outcome(HikariDataSource pool, String sql) throws SQLException {
        int before = backend(pool);
        SQLException error = null;

        try (Connection connection = pool.getConnection();
                Statement statement = connection.createStatement()) {
            statement.execute(sql);
        } catch (SQLException e) {
            error = e;
        }
        if (error == null) {
            return "no error";
        }
        DataAccessException translated = new JdbcTemplate(pool).getExceptionTranslator()
            .translate("a test", sql, error);
        String kept = error.getSQLState() + (backend(pool) == before ? " kept " : " closed ");
        if (translated == null) {
            return kept + "not translated";
        }
        return kept + translated.getClass().getSimpleName()
            + (translated instanceof TransientDataAccessException ? " repeated" : " not repeated");
    }

    static String plain(String url, String sql) throws SQLException {
        try (Connection connection = DriverManager.getConnection(url);
                Statement statement = connection.createStatement()) {
            try {
                statement.execute(sql);
            } catch (SQLException e) {
                return e.getSQLState() + (connection.isValid(60) ? " kept " : " closed ")
                    + e.getClass().getSimpleName();
            }
            return "no error";
        }
    }

    static int backend(HikariDataSource pool) throws SQLException {
        try (Connection connection = pool.getConnection();
                Statement statement = connection.createStatement();
                ResultSet result = statement.executeQuery("SELECT pg_backend_pid()")) {
            result.next();
            return result.getInt(1);
        }
    }
}
