package main

import (
	"bytes"
	"context"
	"flag"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/respitehttp/respite/examples/internal/demo"
)

// L8: the object that leaserenewal keeps lives through the outage, the other does not.
func TestL8Demo(t *testing.T) {
	for _, args := range [][]string{
		{"-short"},
		{"-short", "-mode", "drop", "-field", "spec.lifecycle.shutdownTime"},
		{"-short", "-mode", "hang", "-no-breaker"},
	} {
		t.Run(args[len(args)-1], func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			start := time.Now()
			require.NoError(t, run(t.Context(), args, demo.Streams{Out: &out}))
			assert.Less(t, time.Since(start), 10*time.Second)
			assert.Regexp(t, `the API server is down`, out.String())
			assert.Regexp(t, `s  failed: `, out.String())
			assert.Regexp(t, `s  renewed, expires at`, out.String())
			assert.Regexp(t, `the object is alive, \d+ requests +the object is gone, \d+ request`, out.String())
		})
	}
}

// Ctrl-C ends the demo cleanly.
func TestInterrupt(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	var out bytes.Buffer
	start := time.Now()
	require.NoError(t, run(ctx, nil, demo.Streams{Out: &out}))
	assert.Less(t, time.Since(start), 5*time.Second)
	assert.Contains(t, out.String(), "the object is alive, 0 requests")
}

func TestBadFlags(t *testing.T) {
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"-ttl", "0"}, "-ttl is 0s; accepted: > 0"},
		{[]string{"-ttl", "4ns", "-short"}, "-ttl is 0s; accepted: > 0"},
		{[]string{"-outage-start", "-1s"}, "-outage-start is -1s; accepted: >= 0"},
		{[]string{"-outage", "-1s"}, "-outage is -1s; accepted: >= 0"},
		{[]string{"-mode", "x"}, "-mode is \"x\"; accepted: status, drop or hang"},
		{[]string{"-duration", "0"}, "-duration is 0s; accepted: > 0"},
		{[]string{"-field", "a..b"}, `-field is "a..b"; accepted: keys separated by dots`},
		{[]string{"-token", ""}, `-token is ""; accepted: visible ASCII, not empty`},
		{[]string{"-failures", "0"}, "-failures is 0; accepted: 1 to 10000"},
		{[]string{"-failures", "10001"}, "-failures is 10001; accepted: 1 to 10000"},
		{[]string{"x", "y"}, `unexpected argument "x"; -h lists the flags`},
		{[]string{"-ttl", "-1s", "-duration", "-2s"}, "-ttl is -1s; accepted: > 0\n-duration is -2s; accepted: > 0"},
		{[]string{"-ttl", "soon"}, `invalid value "soon" for flag -ttl: parse error; -h lists the flags`},
		{[]string{"-what"}, "flag provided but not defined: -what; -h lists the flags"},
		{[]string{"-listen", "nowhere"}, `-listen is "nowhere": listen tcp: address nowhere: missing port in address; accepted: host:port, such as 127.0.0.1:0`},
	} {
		var out bytes.Buffer
		assert.EqualError(t, run(t.Context(), test.args, demo.Streams{Out: &out}), test.want)
	}
}

func TestHelp(t *testing.T) {
	var out bytes.Buffer
	assert.ErrorIs(t, run(t.Context(), []string{"-h"}, demo.Streams{Out: &out}), flag.ErrHelp)
	assert.Contains(t, out.String(), "-outage-start")
}
