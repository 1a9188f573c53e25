package layering_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strconv"
	"time"

	"github.com/respitehttp/respite/breaker"
	"github.com/respitehttp/respite/policy"
	"github.com/respitehttp/respite/transport"
)

// unavailable is an httputil.ReverseProxy's ErrorHandler that answers a refusal
// with 503 and tells when to come again, and any other error with 502, as the
// default does.
func unavailable(w http.ResponseWriter, _ *http.Request, err error) {
	var open *breaker.OpenError
	if !errors.As(err, &open) {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	w.Header().Set("Retry-After", strconv.FormatInt(retryAfter(open), 10))
	w.WriteHeader(http.StatusServiceUnavailable)
}

// retryAfter returns the seconds until a request may succeed, rounded up: those
// that are left of the pause. While a trial runs, what remains is only the latest
// time at which it is settled, and it is likely to be settled soon.
func retryAfter(open *breaker.OpenError) int64 {
	if open.State == breaker.HalfOpen {
		return 1
	}
	return max(1, int64((open.Remaining()+time.Second-1)/time.Second))
}

// The Gate is the Transport of the proxy. During a pause the proxy answers by
// itself, at once.
func Example_reverseProxy() {
	backend := httptest.NewServer(http.NotFoundHandler())
	address, err := url.Parse(backend.URL)
	if err != nil {
		fmt.Println(err)
		return
	}
	backend.Close() // nobody listens there any more

	gate, err := transport.New(transport.Config{
		Classify: policy.ServerErrors,
		Breaker:  breaker.Config{FailuresToEnterRecovery: 2, InitialRecoveryDelay: time.Minute},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	proxy := &httputil.ReverseProxy{
		Rewrite:      func(r *httputil.ProxyRequest) { r.SetURL(address) },
		Transport:    gate,
		ErrorHandler: unavailable,
	}

	for range 3 {
		w := httptest.NewRecorder()
		proxy.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
		fmt.Println(w.Code, w.Header())
	}
	// Output:
	// 502 map[]
	// 502 map[]
	// 503 map[Retry-After:[60]]
}
