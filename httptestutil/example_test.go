package httptestutil_test

import (
	"fmt"
	"io"
	"net/http"

	"github.com/jarcoal/httpmock"

	"github.com/respitehttp/respite/httptestutil"
)

// A step is a responder for jarcoal/httpmock.
func ExampleTruncate() {
	mock := httpmock.NewMockTransport()
	mock.RegisterResponder("GET", "http://example.test/stream", httptestutil.Truncate(200, "first line\n"))
	client := &http.Client{Transport: mock}

	resp, err := client.Get("http://example.test/stream")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	fmt.Printf("%s %q %v\n", resp.Status, body, err)
	// Output: 200 OK "first line\n" unexpected EOF
}
