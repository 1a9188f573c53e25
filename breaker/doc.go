// Package breaker gives a failing server a rest: after too many failures it
// pauses all calls for a while, then lets one call through as a trial, and goes
// on pausing, longer each time, until a trial succeeds.
//
// It knows nothing of HTTP. A caller asks before each call and reports after it:
//
//	call, err := b.Allow()
//	if err != nil {
//		return err // an *OpenError: sending is paused
//	}
//	defer call.Cancel() // gives the call back if nothing was reported
//	if err := send(); err != nil {
//		call.Fail(err)
//		return err
//	}
//	call.Succeed()
//
// [Breaker.Allow] is the method that most callers want. [Breaker.Wait] is for
// those who would rather wait out a pause than be refused.
//
// # States
//
//	          ten failures within 100 s
//	Closed ------------------------------> Open <-----------+
//	  ^                                      |              |
//	  | the trial                 the pause  |              | the trial failed:
//	  | succeeded                 is over,   |              |   a longer pause
//	  |                           first call |              | it was cancelled:
//	  |                                      v              |   the first pause
//	  +--------------------------------- HalfOpen ----------+
//
// The edges, with the default settings of [Config]:
//
//   - Closed: every call is admitted. Only failures are recorded: a success
//     between them changes nothing.
//   - Closed -> Open, when a failure is the tenth that is no older than 100 s.
//     Sending pauses for 2 s from that failure, and the record is emptied.
//   - Open: every call is refused with an [*OpenError].
//   - Open -> HalfOpen, when the pause is over and the next call asks: that call
//     is the trial. While it runs, other calls are refused.
//   - HalfOpen -> Open, when the trial fails: the pause doubles, up to 300 s, and
//     runs from the failure. A trial that has not reported within TrialTimeout
//     failed at that instant, so that a trial that hangs or was forgotten cannot
//     hold the breaker.
//   - HalfOpen -> Open, when the trial is cancelled ([Call.Cancel]): it said
//     nothing about the server, so sending pauses for 2 s again, without the
//     growth being lost or added to.
//   - HalfOpen -> Closed, when the trial succeeds: nothing is remembered, and
//     the next pause is 2 s again.
//
// Each change ends the authority of the calls admitted before it: what they
// report later is dropped. So an old success cannot end a pause, nor an old
// failure lengthen one.
//
// # Time
//
// The breaker runs no goroutine and no timer, and there is nothing to close:
// what time has changed is worked out when a method is called. It measures
// monotonic time only, so a step of the wall clock changes nothing. While a
// machine is suspended, the monotonic clock stands still on most systems (Linux
// among them): a pause then goes on after waking for what was left of it, and
// failures from before the sleep count as if it had not been. The wall clock
// reading of a time that the breaker gives out is only right until the next such
// step or sleep; take differences with [time.Until], which does not use it.
//
// In a testing/synctest bubble all of it follows the bubble's clock. A Breaker
// must then be made and used in the same bubble.
//
// # Cost
//
// While closed, admitting a call and reporting its success is one atomic load: no
// lock, no clock, no allocation. A refusal reads the clock and takes no lock; all
// calls that a pause refuses get the same error value. A failure takes a lock for
// a time that does not depend on how many failures the window holds. For these
// the breaker remembers FailuresToEnterRecovery times of 8 bytes, from the first
// failure on. A breaker has 192 bytes, those times, and from the first pause on 512
// bytes in which it counts refusals.
package breaker
