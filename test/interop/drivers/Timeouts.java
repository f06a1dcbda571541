import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;

/**
 * What docs/waiting.md says of the time limits of JDBC, while somebody else has the lock "k".
 *
 * <pre>java Timeouts.java JDBC_URL SECONDS_OF_SOCKET_TIMEOUT</pre>
 */
public class Timeouts {
    public static void main(String[] args) throws SQLException {
        try (Connection connection = DriverManager.getConnection(args[0]);
                Statement statement = connection.createStatement()) {
            statement.setQueryTimeout(1);
            waits("setQueryTimeout", statement);
            statement.setQueryTimeout(0);
            try (ResultSet result = statement.executeQuery("SELECT redis_is_held('k')")) {
                result.next();
                System.out.println("held: " + result.getBoolean(1));
            }
        }

        String url = args[0] + "&socketTimeout=" + args[1];
        try (Connection connection = DriverManager.getConnection(url);
                Statement statement = connection.createStatement()) {
            waits("socketTimeout", statement);
            System.out.println("closed: " + connection.isClosed());
        }
    }

    static void waits(String limit, Statement statement) {
        try {
            statement.execute("SELECT redis_lock('k')");
            System.out.println(limit + ": it has the lock");
        } catch (SQLException e) {
            System.out.println(limit + ": " + e.getSQLState());
        }
    }
}
