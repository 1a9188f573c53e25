// Package answer sends a request of a background loop and takes the answer to it: one
// response, whatever its status, and what is fit for a log.
package answer

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/respitehttp/respite/transport"
)

const (
	// What [Brief] reads of the content, so that the connection can be used again,
	// unless the answer is unreasonable.
	mostBytes   = 64 << 10
	longestRead = time.Second

	mostCharacters = 500 // of the content in an excerpt
)

// To returns the answer to req, as client does, but for two things. A redirect is an
// answer like another: it is not followed, whatever client.CheckRedirect says, and the
// response is without its Location. And the error is fit for a log: it has no *url.Error
// around it, which names the URL, and is what [transport.Redact] returns.
func To(client *http.Client, req *http.Request) (*http.Response, error) {
	once := *client
	once.Transport = noRedirect{client.Transport}
	resp, err := once.Do(req)
	if err != nil {
		if named, ok := err.(*url.Error); ok {
			err = named.Err
		}
		return nil, transport.Redact(req, err)
	}
	return resp, nil
}

// noRedirect takes the Location out of answers, so that an http.Client has nowhere to
// go. Its CheckRedirect is not asked about a Location that is no URL: that is an error,
// which quotes it instead of giving the status.
type noRedirect struct{ base http.RoundTripper }

func (t noRedirect) RoundTrip(req *http.Request) (*http.Response, error) {
	base := t.base
	if base == nil {
		base = http.DefaultTransport
	}
	resp, err := base.RoundTrip(req)
	if err != nil || resp == nil || resp.StatusCode < 300 || resp.StatusCode > 399 {
		return resp, err
	}
	final := *resp
	final.Header = resp.Header.Clone()
	final.Header.Del("Location")
	return &final, nil
}

// Brief returns the status of the answer to req, and the first 500 characters of its
// content, without the secrets of req ([transport.Excerpt]).
//
// The content is read up to 64 KiB, and for up to 1 s, or half of the time that is left
// until the deadline of req if that is less, so that its connection can be used again. A
// content that breaks off or takes too long is one that is short: the status has arrived.
func Brief(client *http.Client, req *http.Request) (status int, excerpt string, err error) {
	ctx, cancel := context.WithCancel(req.Context())
	defer cancel()
	resp, err := To(client, req.WithContext(ctx))
	if err != nil {
		return 0, "", err
	}
	closeBody := sync.OnceFunc(func() { resp.Body.Close() })
	defer closeBody()
	longest := longestRead
	if deadline, ok := ctx.Deadline(); ok {
		longest = min(longest, time.Until(deadline)/2)
	}
	defer time.AfterFunc(longest, cancel).Stop()
	// The end of the context does not end a Read of the body of a 101.
	defer context.AfterFunc(ctx, closeBody)()
	// One byte more, or the end of a content of just so many would not be seen.
	content, _ := io.ReadAll(io.LimitReader(resp.Body, mostBytes+1))
	return resp.StatusCode, transport.Excerpt(req, string(content), mostCharacters), nil
}
