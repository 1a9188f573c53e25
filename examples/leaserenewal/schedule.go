package leaserenewal

import (
	"time"

	"github.com/respitehttp/respite/breaker"
	"github.com/respitehttp/respite/breaker/backoff"
)

const (
	spread          = 0.1 // of the time between two renewals
	longestRetry    = 30 * time.Second
	longestDeadline = 30 * time.Second

	// shortest bounds waits and deadlines from below: at most 1000 attempts a
	// second, whatever the TTL.
	shortest = time.Millisecond
)

// schedule says when a lease is renewed.
type schedule struct {
	interval time.Duration       // from one renewal to the next
	deadline time.Duration       // of one attempt
	retry    backoff.Exponential // from a failed attempt to the next
}

func newSchedule(ttl time.Duration) schedule {
	longest := min(longestRetry, max(ttl/20, shortest))
	return schedule{
		interval: ttl / 2,
		deadline: deadline(ttl),
		retry: backoff.Exponential{
			Initial:    min(time.Second, longest),
			Max:        longest,
			Multiplier: 2,
			Jitter:     0.1,
		},
	}
}

// deadline returns how long an attempt may take: a quarter of the interval.
func deadline(ttl time.Duration) time.Duration {
	return min(longestDeadline, max(ttl/8, shortest))
}

// next returns how long to wait for the next attempt, after so many failures since
// the last success.
func (s schedule) next(failures int) time.Duration {
	if failures == 0 {
		return backoff.Spread(s.interval, spread)
	}
	return s.retry.Delay(failures)
}

// BreakerConfig returns the settings of a breaker for many leases, of which ttl is the
// shortest TTL, so that a server that is down is asked by one of them at a time,
// instead of by each. A pause is at most a twentieth of ttl; the first is 2 s, or
// that twentieth if it is less. A trial may take as long as an attempt. The rest is
// the default, and may be changed. A ttl that is not positive gives a config that
// [breaker.New] refuses.
//
// Set transport.Config.Classify to policy.ServerErrors with it: that an object is
// gone, or a token has expired, says nothing against the server.
//
// # Why a pause loses no lease
//
// In parts of the TTL: a renewal begins at most 0.55 after the last one was done, so
// there is 0.45 left (less what that one took), as much as nine of the longest
// pauses. Say that the server is down then, and works again later. From that instant
// on, each of these happens once at most:
//
//	0.125  an attempt that the server keeps waiting runs out of time
//	0.05   the longest pause, which this failure begins
//	0.05   the longest delay until some lease tries again: the trial, which succeeds
//	0.05   the longest delay until one that was turned away meanwhile tries again
//	-----
//	0.275
//
// So an outage costs no lease that, when it ends, has 0.275 of its TTL left, and what
// one renewal takes; 0.15 if the server refused at once, instead of keeping attempts
// waiting. Without a breaker it would be 0.1 less: the pause, and the wait for the
// trial of another. (A trial that is given back, since its lease is no longer kept,
// costs a first pause more.)
func BreakerConfig(ttl time.Duration) breaker.Config {
	longest := max(ttl/20, 1) // a MaxRecoveryDelay of 0 would mean the default
	if ttl <= 0 {
		longest = -1
	}
	return breaker.Config{
		InitialRecoveryDelay: min(2*time.Second, longest),
		MaxRecoveryDelay:     longest,
		TrialTimeout:         deadline(ttl),
	}
}
