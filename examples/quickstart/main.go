// Quickstart shows an ordinary http.Client that lives through an outage: a server
// goes down and comes back, and the client, whose transport was swapped, backs off
// until then.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/signal"
	"time"

	"github.com/respitehttp/respite/breaker"
	"github.com/respitehttp/respite/policy"
	"github.com/respitehttp/respite/timeouts"
	"github.com/respitehttp/respite/transport"
)

var (
	start    = time.Now()
	url      = flag.String("url", "", "call `URL` instead of a server of the quickstart's own")
	every    = flag.Duration("every", 250*time.Millisecond, "time between calls, above 0")
	total    = flag.Duration("total", 5*time.Second, "time that a call may take")
	duration = flag.Duration("for", 12*time.Second, "how long to go on calling, above 0")
)

func main() {
	var cfg breaker.Config
	flag.IntVar(&cfg.FailuresToEnterRecovery, "failures", 10, "failures within the window that pause sending")
	flag.DurationVar(&cfg.FailuresWindow, "window", 100*time.Second, "how long a failure counts")
	flag.DurationVar(&cfg.InitialRecoveryDelay, "initial-delay", 2*time.Second, "length of the first pause")
	flag.DurationVar(&cfg.MaxRecoveryDelay, "max-delay", 300*time.Second, "length of the longest pause")
	flag.Float64Var(&cfg.RecoveryMultiplier, "multiplier", 2, "growth of the pause with each failed trial")
	flag.Float64Var(&cfg.Jitter, "jitter", 0, "part of a pause that chance may take away, below 1")
	flag.DurationVar(&cfg.TrialTimeout, "trial-timeout", 2*time.Minute, "time after which a trial has failed")
	flag.Parse()
	if err := run(cfg); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(cfg breaker.Config) error {
	switch {
	case flag.NArg() > 0:
		return fmt.Errorf("unexpected argument %q", flag.Arg(0))
	case *every <= 0:
		return fmt.Errorf("-every is %v; accepted: > 0", *every)
	case *duration <= 0:
		return fmt.Errorf("-for is %v; accepted: > 0", *duration)
	}
	cfg.OnChange = func(c breaker.Change) {
		switch c.To {
		case breaker.Open:
			say("-- paused for %v (cause: %v)", c.Delay, c.Cause)
		case breaker.HalfOpen:
			say("-- trial")
		case breaker.Closed:
			say("-- resumed")
		}
	}
	// This is all that a program has to change.
	gate, err := transport.New(transport.Config{
		Breaker:  cfg,
		Limits:   timeouts.Limits{Total: *total},
		Classify: policy.ServerErrors,
		Logger:   slog.New(slog.DiscardHandler), // the changes are shown by OnChange
	})
	if err != nil {
		return err
	}
	client := &http.Client{Transport: gate}

	if *url == "" {
		server := httptest.NewServer(http.HandlerFunc(serve))
		defer server.Close()
		*url = server.URL
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	defer time.AfterFunc(*duration, stop).Stop()
	for ctx.Err() == nil {
		if err := call(ctx, client); err != nil {
			return err
		}
		select {
		case <-time.After(*every):
		case <-ctx.Done():
		}
	}
	stats := gate.Breaker.Stats()
	say("the server was spared %d calls", stats.Refused)
	return nil
}

func call(ctx context.Context, client *http.Client) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, *url, nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err == nil {
		defer resp.Body.Close()
		_, err = io.Copy(io.Discard, resp.Body)
	}
	var open *breaker.OpenError
	switch {
	case errors.As(err, &open):
		say("refused, %v to go", open.Remaining().Round(10*time.Millisecond))
	case err != nil:
		say("failed: %v", err)
	default:
		say("%s", resp.Status)
	}
	return nil
}

// serve is the server: it goes down after a second, and is back six seconds later.
func serve(w http.ResponseWriter, r *http.Request) {
	if age := time.Since(start); age > time.Second && age < 7*time.Second {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
}

func say(format string, args ...any) {
	fmt.Printf("%6.2fs  %s\n", time.Since(start).Seconds(), fmt.Sprintf(format, args...))
}
