# Builds a report, while no other service does: one connection of Active Record's pool holds
# the lock.
#
# The variables of libpq say where PostgreSQL is.

require "active_record"

# Releases the locks of a connection that is returned to the pool.  Otherwise they would stay,
# and the next user could not commit after a lost one.
ActiveRecord::ConnectionAdapters::AbstractAdapter.set_callback(:checkin, :before) do |connection|
  connection.execute("SELECT redis_unlock_all()") if connection.active?
end

ActiveRecord::Base.establish_connection(adapter: "postgresql")
$stdout.sync = true

ActiveRecord::Base.connection_pool.with_connection do |connection|
  unless connection.select_value("SELECT redis_try_lock('rails-report')")
    puts "busy"
    connection.execute("SELECT redis_lock('rails-report')")
  end
  connection.transaction do
    connection.execute("INSERT INTO service_report (made_by) VALUES ('rails')")
  end
  puts "built"
end
