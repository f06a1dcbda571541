import java.sql.Connection;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.function.Supplier;

import com.zaxxer.hikari.HikariConfig;
import com.zaxxer.hikari.HikariDataSource;
import jakarta.persistence.EntityManager;
import org.hibernate.SessionFactory;
import org.hibernate.cfg.Configuration;
import org.springframework.dao.TransientDataAccessException;
import org.springframework.orm.jpa.JpaTransactionManager;
import org.springframework.orm.jpa.SharedEntityManagerCreator;
import org.springframework.orm.jpa.vendor.HibernateJpaDialect;
import org.springframework.transaction.support.TransactionTemplate;

/**
 * What docs/drivers.md says of JPA: Spring's transactions and Hibernate, made by hand as Spring
 * makes them of annotations.
 *
 * <pre>java Jpa.java JDBC_URL</pre>
 */
public class Jpa {
    private static final String LOCK = "SELECT redis_xact_lock(:key)";
    private static final String TRY = "SELECT redis_try_xact_lock(:key, %s)";

    private final HikariDataSource pool;
    private final EntityManager entityManager;
    private final TransactionTemplate transaction;

    Jpa(String url) {
        HikariConfig config = new HikariConfig();
        config.setJdbcUrl(url);
        config.setMaximumPoolSize(2);
        config.setConnectionTimeout(120_000);
        pool = new HikariDataSource(config);

        Configuration hibernate = new Configuration();
        hibernate.getProperties().put("hibernate.connection.datasource", pool);
        SessionFactory factory = hibernate.buildSessionFactory();
        JpaTransactionManager manager = new JpaTransactionManager(factory);
        manager.setJpaDialect(new HibernateJpaDialect());
        manager.afterPropertiesSet();
        entityManager = SharedEntityManagerCreator.createSharedEntityManager(factory);
        transaction = new TransactionTemplate(manager);
    }

    public static void main(String[] args) throws SQLException {
        Jpa jpa = new Jpa(args[0]);

        jpa.inTransaction("lock", () -> {
            jpa.lock();
            return jpa.locks();
        });
        jpa.inTransaction("afterwards", jpa::locks);
        jpa.inTransaction("a cast", () -> jpa.tryLock("CAST(:wait AS interval)"));
        jpa.inTransaction("two colons", () -> jpa.tryLock(":wait::interval"));
        jpa.inTransaction("lost", () -> {
            jpa.lock();
            jpa.entityManager.createNativeQuery("INSERT INTO report VALUES ('jpa')").executeUpdate();
            jpa.onAnotherConnection("SELECT redis_force_unlock('nightly-report')");
            return "committed";
        });
        jpa.inTransaction("redis_with_lock", () -> jpa.entityManager
                .createNativeQuery("CALL redis_with_lock('nightly-report', 'SELECT 1')").getSingleResult());
        jpa.pool.close();
    }

    void lock() {
        entityManager.createNativeQuery(LOCK).setParameter("key", "nightly-report").getSingleResult();
    }

    Object tryLock(String wait) {
        return entityManager.createNativeQuery(String.format(TRY, wait)).setParameter("key", "nightly-report")
                .setParameter("wait", "5 s").getSingleResult();
    }

    Object locks() {
        return entityManager.createNativeQuery("SELECT string_agg(key, ' ') FROM redis_locks").getSingleResult();
    }

    void onAnotherConnection(String sql) {
        try (Connection connection = pool.getConnection(); Statement statement = connection.createStatement()) {
            statement.execute(sql);
        } catch (SQLException e) {
            throw new IllegalStateException(e);
        }
    }

    /** Prints what the work returns, or the exception that its caller gets. */
    void inTransaction(String name, Supplier<Object> work) {
        try {
            System.out.println(name + ": " + transaction.execute(status -> work.get()));
        } catch (RuntimeException e) {
            Throwable root = e;
            while (root.getCause() != null)
                root = root.getCause();
            System.out.println(name + ": " + e.getClass().getSimpleName()
                    + (e instanceof TransientDataAccessException ? " repeated" : "")
                    + (root instanceof SQLException sql ? " " + sql.getSQLState() : ""));
        }
    }
}
