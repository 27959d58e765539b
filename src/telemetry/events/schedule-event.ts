/** Of a schedule. */
export type ScheduleEvent =
  /** This process has enqueued an occurrence of a schedule, `lateMs` after its time. `id` is the message's. */
  | {
      readonly kind: 'schedule.fired'
      readonly queue: string
      readonly schedule: string
      readonly id: string
      readonly scheduledFor: Date
      readonly lateMs: number
    }
  /**
   * Occurrences of a schedule were not enqueued. `late`: no worker looked in time, and `missed` skips them; long gaps
   * count up to 1,000. `overlap`: the last message still exists.
   */
  | {
      readonly kind: 'schedule.missed'
      readonly queue: string
      readonly schedule: string
      readonly occurrences: number
      readonly reason: 'late' | 'overlap'
    }
  /**
   * The next occurrence of a schedule could not be computed, or enqueued. This process tries again after `retryInMs`;
   * another one may do so before.
   */
  | {
      readonly kind: 'schedule.failed'
      readonly queue: string
      readonly schedule: string
      readonly error: Error
      readonly retryInMs: number
    }
