// Command demo shows what package leaserenewal is for: two leases of the same kind on
// an API server that is down around their first renewal. One is kept by
// leaserenewal, the other by a loop that tries once in half a TTL.
//
//	go run ./examples/leaserenewal/demo
//	go run ./examples/leaserenewal/demo -short
//	go run ./examples/leaserenewal/demo -mode hang -outage 5s
//
// It runs on real connections to a server of its own, and ends by itself, or with
// Ctrl-C.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/respitehttp/respite/breaker"
	"github.com/respitehttp/respite/examples/internal/demo"
	"github.com/respitehttp/respite/examples/leaserenewal"
	"github.com/respitehttp/respite/policy"
	"github.com/respitehttp/respite/transport"
)

func main() { demo.Main(run) }

type options struct {
	listen      string
	ttl         time.Duration
	outageStart time.Duration
	outage      time.Duration
	mode        string
	duration    time.Duration
	field       string
	token       string
	failures    int
	noBreaker   bool
	short       bool
}

func parse(args []string, help io.Writer) (options, error) {
	var o options
	flags := flag.NewFlagSet("demo", flag.ContinueOnError)
	flags.StringVar(&o.listen, "listen", "127.0.0.1:0", "`address` of the API server")
	flags.DurationVar(&o.ttl, "ttl", 10*time.Second, "TTL of the leases, above 0")
	flags.DurationVar(&o.outageStart, "outage-start", 4*time.Second, "when the outage begins, at least 0")
	flags.DurationVar(&o.outage, "outage", 4500*time.Millisecond, "how long the outage lasts, at least 0")
	flags.StringVar(&o.mode, "mode", "status", "what the outage looks like: status (503), drop (connections break) or hang (no answer)")
	flags.DurationVar(&o.duration, "duration", 16*time.Second, "when the demo ends, above 0")
	flags.StringVar(&o.field, "field", "spec.shutdownTime", "`path` of the field that holds the expiry")
	flags.StringVar(&o.token, "token", "demo", "bearer token of the API server, visible ASCII")
	flags.IntVar(&o.failures, "failures", 3, "failures that pause sending, 1 to 10000")
	flags.BoolVar(&o.noBreaker, "no-breaker", false, "keep the lease without a breaker")
	flags.BoolVar(&o.short, "short", false, "make all durations a fifth of what they are")
	if err := demo.Parse(flags, args, help); err != nil {
		return o, err
	}

	if o.short {
		for _, d := range []*time.Duration{&o.ttl, &o.outageStart, &o.outage, &o.duration} {
			*d /= 5
		}
	}
	var faults demo.Faults
	faults.Check(o.ttl > 0, "-ttl", o.ttl, "> 0")
	faults.Check(o.outageStart >= 0, "-outage-start", o.outageStart, ">= 0")
	faults.Check(o.outage >= 0, "-outage", o.outage, ">= 0")
	faults.Check(o.mode == "status" || o.mode == "drop" || o.mode == "hang", "-mode", o.mode, "status, drop or hang")
	faults.Check(o.duration > 0, "-duration", o.duration, "> 0")
	faults.Check(leaserenewal.Object{URL: "http://x", ExpiryField: o.field}.Validate() == nil, "-field", o.field, "keys separated by dots")
	faults.Check(o.token != "" && !strings.ContainsFunc(o.token, func(r rune) bool { return r <= ' ' || r > '~' }), "-token", o.token, "visible ASCII, not empty")
	faults.Check(o.failures >= 1 && o.failures <= 10000, "-failures", o.failures, "1 to 10000")
	return o, faults.Err()
}

func run(ctx context.Context, args []string, std demo.Streams) error {
	o, err := parse(args, std.Out)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", o.listen)
	if err != nil {
		return fmt.Errorf("-listen is %q: %w; accepted: host:port, such as 127.0.0.1:0", o.listen, err)
	}
	gate, err := transport.New(transport.Config{Classify: policy.ServerErrors, Breaker: breakerConfig(o), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, o.duration)
	defer cancel()

	t := timeline{demo.NewTimeline(std.Out)}
	t.row("with leaserenewal", "one try per half TTL")
	api := newAPI(t, o)
	server := &http.Server{Handler: api}
	var all sync.WaitGroup
	all.Go(func() { server.Serve(listener) })
	all.Go(func() { api.breakDown(ctx, o.outageStart, o.outageStart+o.outage) })

	url := "http://" + listener.Addr().String() + "/"
	object := func(name string) leaserenewal.Object {
		return leaserenewal.Object{URL: url + name, ExpiryField: o.field, Token: func(context.Context) (string, error) { return o.token, nil }}
	}
	client := &http.Client{Transport: gate}
	if o.noBreaker {
		client = &http.Client{Transport: gate.Base}
	}
	plain := &http.Client{Transport: &http.Transport{}}

	t.row("created", "created")
	api.create("kept", t.left)
	api.create("tried", t.right)
	all.Go(func() { keep(ctx, t, o.ttl, leaserenewal.Patch(client, object("kept"))) })
	all.Go(func() { try(ctx, t, o.ttl, leaserenewal.Patch(plain, object("tried"))) })

	<-ctx.Done()
	t.line("the end")
	t.row(api.state("kept"), api.state("tried"))
	server.Close()
	api.close()
	all.Wait()
	client.CloseIdleConnections()
	plain.CloseIdleConnections()
	return nil
}

func breakerConfig(o options) breaker.Config {
	cfg := leaserenewal.BreakerConfig(o.ttl)
	cfg.FailuresToEnterRecovery = o.failures
	return cfg
}

// keep keeps a lease with package leaserenewal.
func keep(ctx context.Context, t timeline, ttl time.Duration, renew func(context.Context, time.Time) error) {
	renewal, err := leaserenewal.New(leaserenewal.Config{
		TTL: ttl,
		Renew: func(ctx context.Context, expiry time.Time) error {
			err := renew(ctx, expiry)
			if err == nil {
				t.left("renewed, expires at " + t.At(expiry))
			}
			return err
		},
		OnError: func(err error) { t.left(brief(err)) },
		OnLost:  func() { t.left("lost") },
		OnGone:  func() { t.left("gone") },
	})
	if err != nil { // the flags were checked
		panic(err)
	}
	renewal.Run(ctx)
}

// try is the loop that leaserenewal takes the place of.
func try(ctx context.Context, t timeline, ttl time.Duration, renew func(context.Context, time.Time) error) {
	tick := time.NewTicker(max(ttl/2, time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		attempt, cancel := context.WithTimeout(ctx, ttl/8)
		expiry := time.Now().Add(ttl)
		err := renew(attempt, expiry)
		cancel()
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			t.right("renewed, expires at " + t.At(expiry))
		case errors.Is(err, leaserenewal.ErrGone):
			t.right("gone")
			return
		default:
			t.right(brief(err))
		}
	}
}

// brief says of an error what the timeline has room for.
func brief(err error) string {
	var status *leaserenewal.StatusError
	switch {
	case errors.Is(err, breaker.ErrOpen):
		return "not sent: sending is paused"
	case errors.As(err, &status):
		return fmt.Sprintf("failed: status %d", status.Code)
	case errors.Is(err, context.DeadlineExceeded):
		return "failed: no answer in time"
	}
	return "failed: connection broken"
}

// timeline has a column for each of the leases.
type timeline struct{ *demo.Timeline }

func (t timeline) row(left, right string) { t.Printf("%-32s  %s", left, right) }
func (t timeline) left(what string)       { t.row(what, "") }
func (t timeline) right(what string)      { t.row("", what) }
func (t timeline) line(what string) {
	t.Printf("---- %s %s", what, strings.Repeat("-", max(54-len(what), 0)))
}

func count(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}
