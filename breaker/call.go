package breaker

// Call is the permission to make one call, given by [Breaker.Allow]. Report its
// outcome once, by Succeed, Fail or Cancel: the first report counts, and any later
// one does nothing, so that
//
//	defer call.Cancel()
//
// right after Allow is always correct, and makes sure that neither a return, a
// panic nor runtime.Goexit keeps a trial from being settled.
//
// A Call is a value that lives on the caller's stack. Do not copy it, since a copy
// could report a second time, and do not use it from two goroutines at once. The
// methods of the zero Call do nothing.
type Call struct {
	b     *Breaker
	epoch epoch // of the state it was admitted in: a trial, if paused
}

// Succeed reports that the call succeeded. If it is the trial, sending resumes.
func (c *Call) Succeed() {
	if c.epoch.paused() {
		c.b.succeed(c.epoch)
	}
	*c = Call{}
}

// Fail reports that the call failed. If it is the trial, or one failure too many,
// sending pauses. The cause may be nil; it is shown in [Change], [OpenError] and
// what is logged of them, so it should hold no secret.
func (c *Call) Fail(cause error) {
	b, epoch := c.b, c.epoch
	*c = Call{} // first: should OnChange panic, the failure has counted all the same
	if b != nil {
		b.fail(epoch, cause)
	}
}

// Cancel takes the call back: it says nothing about the server. If it is the
// trial, sending pauses again for InitialRecoveryDelay.
func (c *Call) Cancel() {
	if c.epoch.paused() {
		c.b.cancel(c.epoch)
	}
	*c = Call{}
}
