// Package httptestutil is a test kit for code that sends HTTP requests and for
// code that wraps an [http.RoundTripper]. It needs nothing but the standard
// library.
//
// # A server inside a synctest bubble
//
// [NewServer] runs a real [http.Server] over in-memory connections, reached by a
// real [http.Transport]. No goroutine of it waits for the network, so it works
// inside a [testing/synctest] bubble, where minutes of waiting pass at once and
// every instant is exact:
//
//	func TestClientGivesUpAfterAMinute(t *testing.T) {
//		synctest.Test(t, func(t *testing.T) {
//			server := httptestutil.NewServer(t, http.HandlerFunc(
//				func(_ http.ResponseWriter, r *http.Request) {
//					<-r.Context().Done() // never answers
//				}))
//			client := server.Client()
//			client.Timeout = time.Minute
//
//			start := time.Now()
//			_, err := client.Get(server.URL)
//			if err == nil || time.Since(start) != time.Minute {
//				t.Errorf("got %v after %v", err, time.Since(start))
//			}
//		})
//	}
//
// As with any server of net/http, the context of a request with a body ends with the
// client's only once the handler has read that body.
//
// # Answers without a server
//
// [Script] is a RoundTripper that answers one call after the other with the
// steps that it was given: [Status], [Fail], [Hang], [Stall], [Truncate] or a
// function of your own. A step is also a responder for packages such as
// jarcoal/httpmock. [Body] is a request or response body that fails the test
// unless it is closed exactly once.
//
// # The contract of a RoundTripper
//
// [TestTransport] is the contract of net/http for transports as a test suite
// that the author of any middleware can run:
//
//	func TestContract(t *testing.T) {
//		httptestutil.TestTransport(t, func(base http.RoundTripper) http.RoundTripper {
//			return &mypackage.Transport{Base: base}
//		})
//	}
package httptestutil
