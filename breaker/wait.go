package breaker

import (
	"context"
	"time"
)

// Wait blocks until a call could be admitted: no pause, and no trial under way.
// It reserves nothing, so a call that is allowed afterwards may still be refused,
// when another was quicker.
//
// It returns nil then, or [context.Cause] of ctx once ctx has ended. If the
// deadline of ctx lies before the end of a pause, waiting would be in vain: Wait
// returns the [*OpenError] at once. It leaves no goroutine and no timer behind.
func (b *Breaker) Wait(ctx context.Context) error {
	for ctx.Err() == nil {
		refusal, remaining, changed := b.obstacle()
		if refusal == nil {
			return nil
		}
		if deadline, ok := ctx.Deadline(); ok && refusal.State == Open && deadline.Before(refusal.Until) {
			return refusal
		}
		timer := time.NewTimer(remaining)
		select {
		case <-timer.C:
		case <-changed:
		case <-ctx.Done():
		}
		timer.Stop()
	}
	return context.Cause(ctx)
}

// obstacle returns what a call would be refused with now, if anything, for how
// long, and a channel that is closed when that changes before (nil: it will not).
func (b *Breaker) obstacle() (*OpenError, time.Duration, <-chan struct{}) {
	b.mu.Lock()
	defer b.unlock()
	now := b.settle()
	v := b.view.Load()
	if v.refusal == nil || b.rules.over(now) {
		return nil, 0, nil
	}
	if b.rules.state == HalfOpen && v.replaced == nil {
		v.replaced = make(chan struct{})
	}
	return v.refusal, v.until - now, v.replaced
}
