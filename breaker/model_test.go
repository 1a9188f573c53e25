package breaker_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/respitehttp/respite/breaker"
)

// oracle is the breaker once more, obviously right and obviously slow: it keeps
// every failure for ever and counts them anew each time, and each of its calls
// remembers the era that it belongs to. It is written from the rules, not from the
// code, and shares nothing with it.
type oracle struct {
	cfg breaker.Config // all set

	state    breaker.State
	era      int
	failures []time.Time // of this era
	reached  time.Duration
	delay    time.Duration
	until    time.Time
	inARow   int
	cause    error

	changes                        []breaker.Change
	refused, failed, opened, trial uint64
}

type oracleCall struct {
	era      int
	reported bool
}

func (o *oracle) move(to breaker.State, at time.Time, failures int, cause error) {
	c := breaker.Change{From: o.state, To: to, At: at, Failures: failures, Cause: cause}
	if to != breaker.Closed {
		c.Until, c.Delay = o.until, o.delay
	}
	o.changes = append(o.changes, c)
	o.state = to
	o.era++
	o.failures = nil
	if cause != nil {
		o.cause = cause
	}
}

func (o *oracle) pause(at time.Time, delay time.Duration, failures int, cause error) {
	o.opened++
	o.delay, o.until = delay, at.Add(delay)
	o.move(breaker.Open, at, failures, cause)
}

func (o *oracle) trialFailed(at time.Time, cause error) {
	o.failed++
	o.inARow++
	o.reached = min(time.Duration(float64(o.reached)*o.cfg.RecoveryMultiplier), o.cfg.MaxRecoveryDelay)
	o.pause(at, o.reached, o.inARow, cause)
}

// look brings the oracle up to the present: B7.
func (o *oracle) look() {
	if o.state == breaker.HalfOpen && !time.Now().Before(o.until) {
		o.trialFailed(o.until, errOverdue)
	}
}

var errOverdue = errors.New("overdue") // stands for the breaker's own

func (o *oracle) allow() (*oracleCall, bool) {
	o.look()
	switch {
	case o.state == breaker.Closed:
	case o.state == breaker.Open && !time.Now().Before(o.until): // B3
		o.trial++
		o.until = time.Now().Add(o.cfg.TrialTimeout)
		o.move(breaker.HalfOpen, time.Now(), 0, nil)
	default:
		o.refused++
		return nil, false
	}
	return &oracleCall{era: o.era}, true
}

// counts reports whether a report is the first of its call, and of this era.
func (o *oracle) counts(c *oracleCall) bool {
	o.look()
	first := !c.reported
	c.reported = true
	return first && c.era == o.era
}

func (o *oracle) succeed(c *oracleCall) {
	if o.counts(c) && o.state == breaker.HalfOpen { // B5
		o.reached, o.inARow, o.cause = 0, 0, nil
		o.move(breaker.Closed, time.Now(), 0, nil)
	}
}

func (o *oracle) cancel(c *oracleCall) {
	if o.counts(c) && o.state == breaker.HalfOpen { // B6
		o.pause(time.Now(), o.cfg.InitialRecoveryDelay, 0, nil)
	}
}

func (o *oracle) fail(c *oracleCall, cause error) {
	switch {
	case !o.counts(c):
	case o.state == breaker.HalfOpen:
		o.trialFailed(time.Now(), cause)
	default:
		o.failClosed(cause)
	}
}

func (o *oracle) failClosed(cause error) {
	o.look()
	if o.state != breaker.Closed {
		return
	}
	o.failed++
	o.failures = append(o.failures, time.Now())
	if n := o.inWindow(); n >= o.cfg.FailuresToEnterRecovery { // B2
		o.reached = o.cfg.InitialRecoveryDelay
		o.pause(time.Now(), o.reached, n, cause)
	}
}

func (o *oracle) inWindow() (n int) {
	for _, at := range o.failures {
		if time.Since(at) <= o.cfg.FailuresWindow {
			n++
		}
	}
	return n
}

func (o *oracle) stats() breaker.Stats {
	o.look()
	s := breaker.Stats{State: o.state, Failures: o.inWindow(), Refused: o.refused, Failed: o.failed, Opened: o.opened, Trials: o.trial}
	if o.state != breaker.Closed {
		s.Delay, s.Until = o.delay, o.until
	}
	if o.state == breaker.Open && !time.Now().Before(o.until) { // B12
		s.State = breaker.HalfOpen
	}
	return s
}

// agrees runs random sequences of everything a caller can do, on a breaker and on
// the oracle, and compares all that can be seen. It runs in a bubble.
func agrees(t *rapid.T) {
	delay := rapid.Int64Range(1, int64(20*time.Second))
	cfg := breaker.Config{
		FailuresToEnterRecovery: rapid.IntRange(1, 5).Draw(t, "failures"),
		FailuresWindow:          time.Duration(delay.Draw(t, "window")),
		InitialRecoveryDelay:    time.Duration(delay.Draw(t, "initial")),
		RecoveryMultiplier:      float64(rapid.IntRange(1, 4).Draw(t, "multiplier")),
		TrialTimeout:            time.Duration(delay.Draw(t, "trial timeout")),
	}
	cfg.MaxRecoveryDelay = cfg.InitialRecoveryDelay * time.Duration(rapid.IntRange(1, 10).Draw(t, "max"))
	o := &oracle{cfg: cfg}
	var changes []breaker.Change
	cfg.OnChange = func(c breaker.Change) {
		if c.Cause != nil && c.Cause != errDown {
			c.Cause = errOverdue
		}
		changes = append(changes, c)
	}
	b, err := breaker.New(cfg)
	require.NoError(t, err)

	type pair struct {
		real  breaker.Call
		model *oracleCall
	}
	var calls []*pair
	onCall := func(f func(*pair)) func(*rapid.T) {
		return func(t *rapid.T) {
			if len(calls) == 0 {
				return
			}
			// Mostly one of the last calls, sometimes one long forgotten.
			last := len(calls) - 1
			f(calls[last-min(rapid.IntRange(0, last).Draw(t, "call"), rapid.IntRange(0, last).Draw(t, "or"))])
		}
	}
	t.Repeat(map[string]func(*rapid.T){
		"allow": func(t *rapid.T) {
			real, err := b.Allow()
			model, admitted := o.allow()
			require.Equal(t, admitted, err == nil)
			if admitted {
				calls = append(calls, &pair{real, model})
				return
			}
			var open *breaker.OpenError
			require.ErrorAs(t, err, &open)
			require.Equal(t, o.state, open.State)
			require.Equal(t, o.until, open.Until)
			if o.cause == errDown {
				require.Equal(t, errDown, open.Cause)
			}
		},
		"succeed": onCall(func(c *pair) { c.real.Succeed(); o.succeed(c.model) }),
		"fail":    onCall(func(c *pair) { c.real.Fail(errDown); o.fail(c.model, errDown) }),
		"cancel":  onCall(func(c *pair) { c.real.Cancel(); o.cancel(c.model) }),
		"forget":  onCall(func(c *pair) { *c = pair{model: &oracleCall{reported: true}} }),
		"failure of no call": func(*rapid.T) {
			b.Fail(errDown)
			o.failClosed(errDown)
		},
		"time passes": func(t *rapid.T) {
			d := rapid.OneOf(delay, rapid.Int64Range(1, 3)).Draw(t, "ns")
			time.Sleep(time.Duration(d))
		},
		"time passes up to an edge": func(t *rapid.T) {
			edge := o.until
			if len(o.failures) > 0 {
				edge = o.failures[0].Add(cfg.FailuresWindow)
			}
			off := time.Duration(rapid.IntRange(-1, 1).Draw(t, "ns off"))
			time.Sleep(time.Until(edge.Add(off))) // not at all, if in the past
		},
		"": func(*rapid.T) {
			require.Equal(t, o.stats(), b.Stats())
			require.Equal(t, o.stats().State, b.State())
			require.Equal(t, o.changes, changes)
			o.changes, changes = nil, nil
		},
	})
}

func TestModel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { rapid.Check(struct{ testing.TB }{t}, agrees) }) // a bubble has no T.Deadline
}

func FuzzModel(f *testing.F) {
	f.Fuzz(func(t *testing.T, data []byte) {
		synctest.Test(t, func(t *testing.T) { rapid.MakeFuzz(agrees)(t, data) })
	})
}
