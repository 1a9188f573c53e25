package layering_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/hashicorp/go-retryablehttp"

	"github.com/respitehttp/respite/breaker"
	"github.com/respitehttp/respite/transport"
)

// unlessRefused is a retryablehttp.CheckRetry for a client above a Gate: as the
// default, but a refusal is final. To ask again before the pause is over is to ask
// in vain.
func unlessRefused(ctx context.Context, resp *http.Response, err error) (bool, error) {
	if errors.Is(err, breaker.ErrOpen) {
		return false, nil
	}
	return retryablehttp.DefaultRetryPolicy(ctx, resp, err)
}

// A retrying client goes above the Gate, so that each attempt is counted, with a
// CheckRetry that does not retry a refusal. Here the third failed attempt pauses
// sending, so there is no fourth.
func Example_retryablehttp() {
	attempts := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		attempts++
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	defer server.Close()

	gate, err := transport.New(transport.Config{
		Breaker: breaker.Config{FailuresToEnterRecovery: 3},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	client := retryablehttp.NewClient()
	client.HTTPClient = &http.Client{Transport: gate}
	client.CheckRetry = unlessRefused
	client.RetryMax = 10
	client.RetryWaitMin = time.Millisecond
	client.Logger = nil

	_, err = client.Get(server.URL)
	fmt.Println("refused:", errors.Is(err, breaker.ErrOpen))
	fmt.Println("attempts that reached the server:", attempts)
	// Output:
	// refused: true
	// attempts that reached the server: 3
}
