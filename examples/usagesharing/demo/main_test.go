package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/respitehttp/respite/examples/internal/demo"
)

// play runs the demo and returns what it writes.
func play(ctx context.Context, stdin io.Reader, args ...string) (stdout, stderr string, err error) {
	var out, log bytes.Buffer
	err = run(ctx, args, demo.Streams{In: stdin, Out: &out, Err: &log})
	return out.String(), log.String(), err
}

// U13: the whole story, on real connections.
func TestStory(t *testing.T) {
	out, log, err := play(t.Context(), nil, "-short", "-failures-to-enter-recovery", "3")
	require.NoError(t, err)
	assert.Contains(t, out, "  closed     queued ")
	assert.Contains(t, out, "  open       queued ")
	assert.Contains(t, log, "sending paused")
	assert.Contains(t, log, "sending resumed")
	assert.Contains(t, log, "out of order")
	assert.Regexp(t, `\nadded +\d{3,} = accepted \d{3,} \+ not shared \d+ \+ dropped, queue full \d+ \+ after the end \d+\n`, out)
	assert.Regexp(t, `\naccepted +\d{3,} = delivered \d{3,} \+ dropped by failed sends \d+ \+ dropped at shutdown 0\n`, out)
	assert.Regexp(t, `\nreceived +\d{3,} entries in \d+ messages, and refused [1-9]\d* messages\n$`, out)
}

// U13: evidence from a file, to a service of one's own.
func TestEvidenceFromAFile(t *testing.T) {
	var entries atomic.Uint64
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, err := count(r.Body)
		assert.NoError(t, err)
		entries.Add(n)
	}))
	defer service.Close()
	file := filepath.Join(t.TempDir(), "evidence")
	lines := "{\"header.a\":\"1\"}\n\n {\"header.a\":\"2\", \"query.q\":\"3\"} \r\n{\"header.cookie\":\"4\"}\n{\"header.a\":\"" + strings.Repeat("5", 1<<20) + "\"}"
	require.NoError(t, os.WriteFile(file, []byte(lines), 0o600))

	out, _, err := play(t.Context(), nil, "-url", service.URL, "-evidence", file)
	require.NoError(t, err)
	assert.EqualValues(t, 3, entries.Load())
	assert.Contains(t, out, "ending: no more evidence")
	assert.Contains(t, out, "accepted 3 + not shared 1 ")
	assert.Contains(t, out, "= delivered 3 ")
	assert.NotContains(t, out, "received")
}

// U13: a line that is not a JSON object is named by its number; what came before it is
// sent.
func TestLineThatIsNoObject(t *testing.T) {
	for _, bad := range []string{"nonsense", "null", "3", `"text"`, `["header.a"]`, `{"header.a":1}`, `{"header.a":null}`, `{"header.a":"1"`, `{} {}`} {
		out, _, err := play(t.Context(), strings.NewReader("{\"header.a\":\"1\"}\n\n"+bad+"\n{\"header.a\":\"2\"}\n"), "-evidence", "-")
		assert.ErrorContains(t, err, "line 3 of the evidence is not a JSON object of strings: ", bad)
		assert.Contains(t, out, "\nending: line 3 of the evidence is not a JSON object", bad)
		assert.Contains(t, out, "= delivered 1 ", bad)
		assert.Contains(t, out, "received        1 entries in 1 messages", bad)
	}
}

// U13: an interrupt ends it with the summary, also while it waits for standard input.
func TestInterrupt(t *testing.T) {
	stdin, keyboard := io.Pipe()
	defer keyboard.Close()
	ctx, interrupt := context.WithCancelCause(t.Context())
	go func() {
		io.WriteString(keyboard, "{\"header.a\":\"1\"}\n{\"header.a\":\"2\"}\n") // which returns when it was read
		io.WriteString(keyboard, "{\"header.a\":")
		interrupt(errors.New("interrupt"))
	}()
	out, _, err := play(ctx, stdin, "-evidence", "-")
	require.NoError(t, err)
	assert.Contains(t, out, "ending: interrupt\n")
	assert.Contains(t, out, "received ")
}

func TestFlags(t *testing.T) {
	for args, want := range map[string]string{
		"-rate 0":                       "-rate is 0; accepted: 1 to 1000000",
		"-rate 1000001":                 "-rate is 1000001",
		"-progress 0s":                  "-progress is 0s; accepted: > 0",
		"-duration -1s":                 "-duration is -1s; accepted: >= 0",
		"-fails -1s":                    "-fails is -1s; accepted: >= 0",
		"-fails 8s":                     "-recovers is 7s; accepted: >= -fails, 8s",
		"-rate 0 -duration -1s":         "-rate is 0; accepted: 1 to 1000000\n-duration is -1s; accepted: >= 0",
		"-jitter 1 -share-percentage 2": "Jitter is 1",
		"-rate 0 -jitter 1":             "-rate is 0; accepted: 1 to 1000000\nbreaker: Jitter is 1",
		"-max-queue-size 10":            "MaxQueueSize is 10",
		"-evidence /does/not/exist":     "-evidence: open /does/not/exist",
		"-url nowhere":                  "URL is not an absolute URL",
		"-nothing":                      "flag provided but not defined",
		"more":                          `unexpected argument "more"`,
	} {
		out, _, err := play(t.Context(), nil, strings.Fields(args)...)
		assert.ErrorContains(t, err, want)
		assert.Empty(t, out)
	}
	help, _, err := play(t.Context(), nil, "-help")
	assert.ErrorIs(t, err, flag.ErrHelp)
	assert.Contains(t, help, "-blocked-http-headers")
}

// Every flag reaches its option.
func TestParse(t *testing.T) {
	args := `-url http://u -request-timeout 1s -min-entries-per-message 2 -max-queue-size 3 -share-percentage 0.4 -repeat-evidence-interval 5s
		-blocked-http-headers a,b -included-query-string-parameters c -share-all-query-string-parameters -share-all-evidence
		-product p -version v -flow-elements e,f -server-ip i -shutdown-timeout 6s -failures-to-enter-recovery 7 -failures-window 8s
		-initial-recovery-delay 9s -max-recovery-delay 10s -recovery-multiplier 11 -jitter 0.12 -trial-timeout 13s
		-evidence g -rate 14 -duration 15s -progress 16s -fails 17s -recovers 18s -short`
	o, err := parse(strings.Fields(args), io.Discard)
	require.NoError(t, err)
	want := options{evidence: "g", rate: 14, duration: 15 * time.Second, progress: 16 * time.Second, fails: 17 * time.Second, recovers: 18 * time.Second}
	c := &want.sender
	c.URL, c.RequestTimeout, c.MinEntriesPerMessage, c.MaxQueueSize = "http://u", time.Second, 2, 3
	c.SharePercentage, c.RepeatEvidenceInterval = 0.4, 5*time.Second
	c.BlockedHTTPHeaders, c.IncludedQueryStringParameters = []string{"a", "b"}, []string{"c"}
	c.ShareAllQueryStringParameters, c.ShareAllEvidence = true, true
	c.Product, c.Version, c.FlowElements, c.ServerIP, c.ShutdownTimeout = "p", "v", []string{"e", "f"}, "i", 6*time.Second
	b := &c.Breaker
	b.FailuresToEnterRecovery, b.FailuresWindow, b.InitialRecoveryDelay, b.MaxRecoveryDelay = 7, 8*time.Second, 9*time.Second, 10*time.Second
	b.RecoveryMultiplier, b.Jitter, b.TrialTimeout = 11, 0.12, 13*time.Second
	assert.Equal(t, want, o)

	o, err = parse([]string{"-blocked-http-headers", ""}, io.Discard)
	require.NoError(t, err)
	assert.Equal(t, []string{}, o.sender.BlockedHTTPHeaders, "none, which is not the default")
}
