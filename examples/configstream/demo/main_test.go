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

// S9: the nodes die and come back, and the listener follows.
func TestS9Demo(t *testing.T) {
	for _, host := range []string{"127.0.0.1", "::1"} {
		t.Run(host, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			start := time.Now()
			if err := run(t.Context(), []string{"-short", "-host", host}, demo.Streams{Out: &out}); err != nil && host == "::1" {
				t.Skip(err) // no IPv6
			} else {
				require.NoError(t, err)
			}
			assert.Less(t, time.Since(start), 10*time.Second)
			for _, want := range []string{
				`config +revision 1: nodes \S+, \S+, \S+\n`,
				`listener +node failed node=http://\S+ error=unexpected EOF\n`,
				`config +revision 2: nodes \S+, \S+\n`,
				`config +revision 3: nodes \S+, \S+, \S+\n`,
				`listener +round over wait=100ms\n`,
				`listener +round over wait=1s\n`,
				`config +revision 5: nodes \S+, \S+\n`,
				`the end\n$`,
			} {
				assert.Regexp(t, want, out.String())
			}
			assert.NotContains(t, out.String(), "$HOST")
		})
	}
}

// Ctrl-C ends the demo cleanly.
func TestInterrupt(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	out := output{until: "revision 1", then: cancel}
	require.NoError(t, run(ctx, []string{"-duration", "1h"}, demo.Streams{Out: &out}))
	assert.NotContains(t, out.String(), "failed")
}

// output calls a function when a text has been written to it.
type output struct {
	bytes.Buffer
	until string
	then  func()
}

func (o *output) Write(b []byte) (int, error) {
	n, err := o.Buffer.Write(b)
	if bytes.Contains(b, []byte(o.until)) {
		o.then()
	}
	return n, err
}

func TestBadFlags(t *testing.T) {
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"-duration", "0"}, "-duration is 0s; accepted: > 0"},
		{[]string{"-heartbeat", "-1s"}, "-heartbeat is -1s; accepted: > 0"},
		{[]string{"-path", "x"}, "-path is \"x\"; accepted: a path that begins with /, without ?, # and %"},
		{[]string{"-path", "/x?y"}, "-path is \"/x?y\"; accepted: a path that begins with /, without ?, # and %"},
		{[]string{"-wait", "0"}, "-wait is 0s; accepted: > 0"},
		{[]string{"-wait-max", "99ms"}, "-wait-max is 99ms; accepted: >= -wait, 100ms"},
		{[]string{"-wait-multiplier", "0"}, "-wait-multiplier is 0; accepted: >= 1 and finite"},
		{[]string{"-wait-multiplier", "NaN"}, "-wait-multiplier is NaN; accepted: >= 1 and finite"},
		{[]string{"-wait-jitter", "1"}, "-wait-jitter is 1; accepted: >= 0 and < 1"},
		{[]string{"-header", "0"}, "-header is 0s; accepted: > 0"},
		{[]string{"-idle", "-1s"}, "-idle is -1s; accepted: > 0"},
		{[]string{"-max-line", "0"}, "-max-line is 0; accepted: > 0"},
		{[]string{"x", "y"}, `unexpected argument "x"; -h lists the flags`},
		{[]string{"-idle", "0", "-header", "0"}, "-header is 0s; accepted: > 0\n-idle is 0s; accepted: > 0"},
		{[]string{"-idle", "soon"}, `invalid value "soon" for flag -idle: parse error; -h lists the flags`},
		{[]string{"-what"}, "flag provided but not defined: -what; -h lists the flags"},
	} {
		var out bytes.Buffer
		assert.EqualError(t, run(t.Context(), test.args, demo.Streams{Out: &out}), test.want)
	}
	assert.Error(t, run(t.Context(), []string{"-host", "no address"}, demo.Streams{Out: new(bytes.Buffer)}))
}

func TestHelp(t *testing.T) {
	var out bytes.Buffer
	assert.ErrorIs(t, run(t.Context(), []string{"-h"}, demo.Streams{Out: &out}), flag.ErrHelp)
	assert.Contains(t, out.String(), "-wait-multiplier")
}
