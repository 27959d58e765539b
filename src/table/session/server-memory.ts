/**
 * A string that stays the same for as long as the server cannot have lost a commit that it showed: when it was started,
 * and when its statistics began. Recovery after the crash of one process keeps the first, but discards the statistics
 * and so changes the second. (So does a reset of the statistics, which does no harm.) Empty on PostgreSQL 14, which
 * gets the second from another process and would wait for its answer.
 */
export const SERVER_MEMORY = `CASE WHEN pg_catalog.current_setting('server_version_num')::integer >= 150000 THEN pg_catalog.concat(
      (date_part('epoch', pg_postmaster_start_time()) * 1000000::double precision)::bigint, '/',
      (date_part('epoch', pg_stat_get_bgwriter_stat_reset_time()) * 1000000::double precision)::bigint) ELSE '' END`
