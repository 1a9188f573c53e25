package breaker

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"time"
)

// The settings that stand for zero fields of [Config]. The figures are those of
// the back-off in the 51Degrees usage-sharing specification.
const (
	defaultFailures     = 10
	defaultWindow       = 100 * time.Second
	defaultInitialDelay = 2 * time.Second
	defaultMaxDelay     = 300 * time.Second
	defaultMultiplier   = 2
	defaultTrialTimeout = 2 * time.Minute

	mostFailures = 10_000
)

// Config holds the settings of a [Breaker]. A zero field means its default, so
// the zero Config is complete.
type Config struct {
	// FailuresToEnterRecovery is how many failures within FailuresWindow pause
	// sending. 1 to 10,000; default 10.
	FailuresToEnterRecovery int

	// FailuresWindow is how long a failure counts: one exactly that old still
	// does. The window slides and is exact. Above 0; default 100 s.
	FailuresWindow time.Duration

	// InitialRecoveryDelay is the length of the first pause, and of the one that
	// follows a cancelled trial. Above 0; default 2 s.
	InitialRecoveryDelay time.Duration

	// MaxRecoveryDelay is the length that no pause passes. At least
	// InitialRecoveryDelay; default the larger of 300 s and InitialRecoveryDelay.
	MaxRecoveryDelay time.Duration

	// RecoveryMultiplier is how much longer the pause becomes with each failed
	// trial. At least 1, and finite; default 2.
	RecoveryMultiplier float64

	// Jitter is the largest part of a pause that chance takes away, so that many
	// clients do not come back at the same instant: a pause of delay d lasts
	// between d x (1 - Jitter) and d. Growth goes by the unshortened delay. At
	// least 0 and below 1; default 0.
	Jitter float64

	// TrialTimeout is how long a trial may take to report; after that it has
	// failed. Choose it longer than a call may take until it is reported. Above 0;
	// default 2 min.
	TrialTimeout time.Duration

	// OnChange, if not nil, is called after each change, in order, one at a time and
	// with no lock held, so it may call the breaker. It runs within some call of a
	// method of Breaker or Call, and delays the return of that call: keep it short.
	// That call need not be the one that made the change: while one goroutine
	// delivers changes, the others leave theirs to it and return. When OnChange
	// panics, the panic reaches the caller of the method in which it ran, once the
	// breaker is consistent again; a trial that the same call of Allow had admitted is
	// given back.
	OnChange func(Change)
}

// withDefaults returns the config with the zero fields set, or an error that
// lists every field that is outside its range.
func (c Config) withDefaults() (Config, error) {
	var faults []error
	refuse := func(field string, value any, accepted string) {
		faults = append(faults, fmt.Errorf("breaker: %s is %v; accepted: %s", field, value, accepted))
	}
	positive := func(field string, d *time.Duration, standard time.Duration) {
		if *d < 0 {
			refuse(field, *d, fmt.Sprintf("> 0, or 0 for %v", standard))
		}
		*d = cmp.Or(*d, standard)
	}

	if n := c.FailuresToEnterRecovery; n < 0 || n > mostFailures {
		refuse("FailuresToEnterRecovery", n, fmt.Sprintf("1 to %d, or 0 for %d", mostFailures, defaultFailures))
	}
	c.FailuresToEnterRecovery = cmp.Or(c.FailuresToEnterRecovery, defaultFailures)
	positive("FailuresWindow", &c.FailuresWindow, defaultWindow)
	positive("InitialRecoveryDelay", &c.InitialRecoveryDelay, defaultInitialDelay)
	c.MaxRecoveryDelay = cmp.Or(c.MaxRecoveryDelay, max(defaultMaxDelay, c.InitialRecoveryDelay))
	if c.MaxRecoveryDelay < max(c.InitialRecoveryDelay, 1) {
		refuse("MaxRecoveryDelay", c.MaxRecoveryDelay, fmt.Sprintf("> 0 and >= InitialRecoveryDelay (%v), or 0 for the larger of %v and that", c.InitialRecoveryDelay, defaultMaxDelay))
	}
	c.RecoveryMultiplier = cmp.Or(c.RecoveryMultiplier, defaultMultiplier)
	if m := c.RecoveryMultiplier; !(m >= 1) || math.IsInf(m, 1) { // NaN is refused by the negation
		refuse("RecoveryMultiplier", m, fmt.Sprintf(">= 1 and finite, or 0 for %d", defaultMultiplier))
	}
	if j := c.Jitter; !(j >= 0 && j < 1) {
		refuse("Jitter", j, ">= 0 and < 1")
	}
	positive("TrialTimeout", &c.TrialTimeout, defaultTrialTimeout)
	return c, errors.Join(faults...)
}
