package breaker

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The instants of a bubble are negative, so no test in one comes near the end of
// what a Duration holds.
func TestB11LongestDelays(t *testing.T) {
	const longest = time.Duration(math.MaxInt64)
	cfg, err := Config{FailuresToEnterRecovery: 2, FailuresWindow: longest, InitialRecoveryDelay: longest, TrialTimeout: longest}.withDefaults()
	require.NoError(t, err)

	r := newRules(cfg)
	r.fail(-time.Hour, 0)
	r.fail(time.Hour, 0)
	require.Equal(t, Open, r.state)
	require.Equal(t, longest, r.until)
	admitted, _ := r.admit(longest - 1)
	require.False(t, admitted)

	cfg.InitialRecoveryDelay = time.Second
	r = newRules(cfg)
	r.fail(0, 0)
	r.fail(0, 0)
	admitted, _ = r.admit(time.Hour)
	require.True(t, admitted)
	require.Equal(t, longest, r.until)
	require.Equal(t, change{}, r.settle(longest-1))
}
