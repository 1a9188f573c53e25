package leaserenewal_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/respitehttp/respite/breaker"
	"github.com/respitehttp/respite/examples/leaserenewal"
	"github.com/respitehttp/respite/policy"
	"github.com/respitehttp/respite/transport"
)

// A lease that fails once, is renewed, and whose object is then gone.
func Example() {
	attempts := 0
	renewal, err := leaserenewal.New(leaserenewal.Config{
		TTL: 2 * time.Second,
		Renew: func(_ context.Context, expiry time.Time) error {
			switch attempts++; attempts {
			case 1:
				return io.ErrUnexpectedEOF
			case 2:
				fmt.Println("renewed for another 2s:", time.Until(expiry) > time.Second)
				return nil
			}
			return leaserenewal.ErrGone
		},
		OnError: func(err error) { fmt.Println("failed:", err) },
		OnGone:  func() { fmt.Println("gone") },
	})
	if err != nil {
		panic(err)
	}
	fmt.Println(renewal.Run(context.Background()))
	// Output:
	// failed: unexpected EOF
	// renewed for another 2s: true
	// gone
	// leaserenewal: the leased object is gone
}

// One renewal over HTTP, through the breaker that all leases of a program share.
func ExamplePatch() {
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		patch, _ := io.ReadAll(r.Body)
		fmt.Println(r.Method, r.URL.Path, r.Header.Get("Authorization"))
		fmt.Println(string(patch))
	}))
	defer api.Close()

	const ttl = time.Hour
	gate, err := transport.New(transport.Config{
		Classify: policy.ServerErrors,
		Breaker:  leaserenewal.BreakerConfig(ttl),
	})
	if err != nil {
		panic(err)
	}
	object := leaserenewal.Object{
		URL:         api.URL + "/sandboxes/mine",
		ExpiryField: "spec.lifecycle.shutdownTime",
		Token:       func(context.Context) (string, error) { return "t0ken", nil },
	}
	if err := object.Validate(); err != nil {
		panic(err)
	}
	renew := leaserenewal.Patch(&http.Client{Transport: gate}, object)
	// In a program, leaserenewal.Config.Renew is what renew is for.
	fmt.Println(renew(context.Background(), time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)))
	// Output:
	// PATCH /sandboxes/mine Bearer t0ken
	// {"spec":{"lifecycle":{"shutdownTime":"2030-01-02T03:04:05Z"}}}
	// <nil>
}

// A pause is at most a twentieth of the TTL.
func ExampleBreakerConfig() {
	b, err := breaker.New(leaserenewal.BreakerConfig(time.Minute))
	if err != nil {
		panic(err)
	}
	for range 10 {
		b.Fail(nil)
	}
	cfg := leaserenewal.BreakerConfig(time.Minute)
	fmt.Println("paused for", b.Stats().Delay, "now,", cfg.MaxRecoveryDelay, "at most")
	// Output: paused for 2s now, 3s at most
}
