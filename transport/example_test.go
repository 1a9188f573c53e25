package transport_test

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"syscall"
	"time"

	"github.com/respitehttp/respite/breaker"
	"github.com/respitehttp/respite/policy"
	"github.com/respitehttp/respite/timeouts"
	"github.com/respitehttp/respite/transport"
)

func ExampleNew() {
	sick := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	defer sick.Close()

	gate, err := transport.New(transport.Config{
		Limits:   timeouts.Limits{Total: 30 * time.Second},
		Classify: policy.ServerErrors,
		Breaker:  breaker.Config{FailuresToEnterRecovery: 2},
		Logger:   slog.New(slog.DiscardHandler),
	})
	if err != nil {
		panic(err)
	}
	client := &http.Client{Transport: gate}
	for range 3 {
		resp, err := client.Get(sick.URL)
		var open *breaker.OpenError
		switch {
		case errors.As(err, &open):
			fmt.Println("not sent, because of:", open.Cause)
		case err != nil:
			fmt.Println("failed:", err)
		default:
			io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
			fmt.Println(resp.Status)
		}
	}
	// Output:
	// 503 Service Unavailable
	// 503 Service Unavailable
	// not sent, because of: 503 Service Unavailable
}

// A Gate of one's own making has just the parts that it is given.
func ExampleGate() {
	b, err := breaker.New(breaker.Config{FailuresToEnterRecovery: 3})
	if err != nil {
		panic(err)
	}
	client := &http.Client{Transport: &transport.Gate{
		Base:     &timeouts.Transport{Limits: timeouts.Limits{Header: 10 * time.Second, Idle: time.Minute}},
		Breaker:  b,
		Classify: policy.StatusIn(200, 404),
	}}
	_, err = client.Get("http://127.0.0.1:0/")
	fmt.Println(err != nil, b.Stats().Failures)
	// Output: true 1
}

// An error of a client is made fit for a log.
func ExampleRedact() {
	req, err := http.NewRequest(http.MethodGet, "http://user:secret@127.0.0.1:1/p?token=abc123", nil)
	if err != nil {
		panic(err)
	}
	_, err = http.DefaultClient.Do(req)
	fmt.Println(transport.Redact(req, err))
	fmt.Println(errors.Is(transport.Redact(req, err), syscall.ECONNREFUSED))
	// Output:
	// Get [redacted]: dial tcp 127.0.0.1:1: connect: connection refused
	// true
}
