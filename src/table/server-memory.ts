/**
 * A text that is the same for as long as the server has forgotten nothing that it once showed: when it was started, and
 * when its statistics began. Recovery after the crash of one process starts the server anew and keeps the first, but
 * discards the statistics, so it changes the second. (So does a reset of the statistics, which does no harm.)
 * Empty on PostgreSQL 14, which has the second from another process and would wait for its answer.
 */
export const SERVER_MEMORY = `CASE WHEN pg_catalog.current_setting('server_version_num')::integer >= 150000 THEN pg_catalog.concat(
      (date_part('epoch', pg_postmaster_start_time()) * 1000000::double precision)::bigint, '/',
      (date_part('epoch', pg_stat_get_bgwriter_stat_reset_time()) * 1000000::double precision)::bigint) ELSE '' END`
