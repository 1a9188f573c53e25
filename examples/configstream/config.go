package configstream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"github.com/hashicorp/go-cleanhttp"

	"github.com/respitehttp/respite/breaker/backoff"
	"github.com/respitehttp/respite/timeouts"
)

// The settings that stand for zero fields of [Config].
const (
	defaultHeader  = 10 * time.Second
	defaultIdle    = 5 * time.Minute
	defaultMaxLine = 20 << 20
)

var defaultBackoff = backoff.Exponential{Initial: 100 * time.Millisecond, Max: 10 * time.Second, Multiplier: 10}

// Config holds the settings of a [Listener]. A zero field means its default; only
// Nodes is required.
//
// Nodes and OnConfig run in a goroutine of their own, and Run waits for them; but once
// its context has ended, for no longer than 10 ms. One that works on then is left
// behind. A panic in them is a panic in Run, with the same value, unless they were left
// behind.
type Config struct {
	// Nodes returns the addresses of the nodes. It is asked anew for each round, with
	// the context of Run. An error, or no node, is a round that failed.
	//
	// An address is a base URL, such as https://node1.example.com:18091/prefix, or a
	// host without scheme, then http: 10.0.0.1:8091, [fe80::1]:8091, ::1. User info
	// in it is sent as Basic authorization. Of addresses that lead to the same URL, one
	// is tried.
	Nodes func(context.Context) ([]string, error)

	// Path is where a node serves the stream: it is joined to the path of the address,
	// with one slash between them, and a query in it is appended to that of the
	// address. Default empty: the address alone.
	Path string

	// Transport makes the requests, each on a connection that is closed after it. It
	// must heed the context of a request, until its response body is closed, or Run
	// may not end in time. If it has limits of package timeouts, Limits takes their
	// place: a [transport.Gate] does not cut the stream after a minute. If nil, a
	// transport of the listener's own makes the requests.
	//
	// After each stream and each failure, the listener calls Transport's
	// CloseIdleConnections, since a dial that was given up may still end with a
	// connection: so give it no pool that others use.
	Transport http.RoundTripper

	// OnConfig, if not nil, is called with each configuration that is taken: in order,
	// one at a time, when Latest gives it already. The stream is not read meanwhile.
	// While a call that was left behind works on, another Run begins no other.
	OnConfig func(Update)

	// Backoff gives the wait after a round, by the number of rounds since a line
	// arrived. Zero as a whole, it is 100 ms, 1 s, 10 s, 10 s ...; otherwise it is
	// taken as it is, with the defaults of its own type.
	Backoff backoff.Exponential

	// Limits bounds the wait for the header (default 10 s) and for each byte of the
	// body (default 5 min). Both above 0. Total must be 0: a stream has no end.
	Limits timeouts.Limits

	// MaxLine is how many bytes a line may have, its newline included. Above 0;
	// default 20 MiB (20,971,520).
	MaxLine int

	// Logger gets an Info record for each stream that begins ("stream begun") or comes
	// to its end ("stream ended"), and for the wait after each round ("round over"); and
	// a Warn record for each node that fails or breaks off ("node failed", "node refuses
	// the credentials"), where Nodes gives none ("no nodes"), and where OnConfig calls
	// runtime.Goexit ("OnConfig failed"). Addresses are logged without user info, path
	// and query, errors as [transport.Redact] gives them. If nil, slog.Default() at that
	// time does.
	Logger *slog.Logger
}

func (c Config) withDefaults() (Config, *url.URL, error) {
	var faults []error
	refuse := func(field string, value any, accepted string) {
		faults = append(faults, fmt.Errorf("configstream: %s is %v; accepted: %s", field, value, accepted))
	}
	if c.Nodes == nil {
		refuse("Nodes", "nil", "a function")
	}
	path, ok := parsePath(c.Path)
	if !ok {
		refuse("Path", "not a path (it is not shown, since it may hold a secret)", "the path of a URL, with or without a query, in which a space is %20")
	}
	if c.Backoff == (backoff.Exponential{}) {
		c.Backoff = defaultBackoff
	}
	if err := c.Backoff.Validate(); err != nil {
		faults = append(faults, fmt.Errorf("configstream: Backoff: %w", err))
	}
	if c.Limits.Total != 0 {
		refuse("Limits.Total", c.Limits.Total, "0, a stream has no end")
	}
	for _, limit := range []struct {
		field    string
		value    *time.Duration
		standard time.Duration
	}{
		{"Limits.Header", &c.Limits.Header, defaultHeader},
		{"Limits.Idle", &c.Limits.Idle, defaultIdle},
	} {
		if *limit.value < 0 {
			refuse(limit.field, *limit.value, fmt.Sprintf("> 0, or 0 for %v", limit.standard))
		}
		*limit.value = cmp.Or(*limit.value, limit.standard)
	}
	if c.MaxLine < 0 {
		refuse("MaxLine", c.MaxLine, fmt.Sprintf("> 0, or 0 for %d", defaultMaxLine))
	}
	c.MaxLine = cmp.Or(c.MaxLine, defaultMaxLine)
	if c.Transport == nil {
		c.Transport = cleanhttp.DefaultTransport()
	}
	return c, path, errors.Join(faults...)
}
