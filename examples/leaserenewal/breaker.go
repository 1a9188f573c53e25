package leaserenewal

import (
	"time"

	"github.com/respitehttp/respite/breaker"
)

// longestPause is what a breaker has by default.
const longestPause = 300 * time.Second

// BreakerConfig returns the settings of a breaker for many leases, of which ttl is the
// shortest TTL: when ten of their renewals have failed within 100 s, a server that is
// down is asked by one of them at a time, instead of by each. A pause is at most a
// twentieth of ttl, or 5 min if that is less; the first is 2 s, or the most if that is
// less. A trial may take a quarter longer than an attempt, so that the error of the
// attempt is the one that is told. The rest is the default, and may be changed. A ttl
// that is not positive gives a config that [breaker.New] refuses.
//
// Set transport.Config.Classify to policy.ServerErrors with it: that an object is
// gone, or a token has expired, says nothing against the server.
//
// Leases that share a breaker should have about the same TTL. A server that is too slow
// for the shortest of them is out of order for all: its attempts time out, also those
// that are the trials.
//
// # What a pause costs
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
// two renewals take: the trial and its own. If the server refused at once, instead of
// keeping attempts waiting, it is 0.15 in the place of 0.275. Without a breaker it would
// be 0.1 less, and one renewal: the pause, and the wait for the trial of another. (A
// trial that is given back, since its lease is no longer kept, costs a first pause more,
// and one of a client that ignores its context a quarter of an attempt.)
func BreakerConfig(ttl time.Duration) breaker.Config {
	longest := min(longestPause, max(ttl/20, 1)) // a MaxRecoveryDelay of 0 would mean the default
	if ttl <= 0 {
		longest = -1
	}
	return breaker.Config{
		InitialRecoveryDelay: min(2*time.Second, longest),
		MaxRecoveryDelay:     longest,
		TrialTimeout:         attemptTimeout(ttl) * 5 / 4,
	}
}
