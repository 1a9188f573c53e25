package leaserenewal

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/respitehttp/respite/examples/internal/answer"
	"github.com/respitehttp/respite/transport"
)

const defaultExpiryField = "spec.shutdownTime"

// Object is what [Patch] renews: a resource of a REST API, such as that of
// Kubernetes.
type Object struct {
	// URL is where the object is: an absolute http or https URL. User info in it is
	// sent as Basic authorization, if there is no Token. Errors show its scheme, host
	// and path; of what else a server or a transport may say of it, see StatusError
	// and [transport.Redact]. Required.
	URL string

	// ExpiryField is the path of the field that holds the expiry: the keys that
	// lead to it, separated by dots. Keys that have a dot in them cannot be
	// named. Default "spec.shutdownTime".
	ExpiryField string

	// Token, if not nil, returns the bearer token. It is asked before each request,
	// with the context of that attempt, so a token that expires may be replaced at
	// any time. A token that is empty, or holds a space, a control character (the
	// newline of a file, say) or one beyond ASCII, is an error, and nothing is sent.
	Token func(context.Context) (string, error)
}

// Validate reports every field that is outside its range, joined in one error.
func (o Object) Validate() error {
	var faults []error
	if fault := answer.URLFault(o.URL); fault != "" {
		faults = append(faults, fmt.Errorf("leaserenewal: Object.URL %s; accepted: an http or https URL with a host", fault))
	}
	if field := o.expiryField(); !utf8.ValidString(field) || slices.Contains(strings.Split(field, "."), "") {
		faults = append(faults, fmt.Errorf("leaserenewal: Object.ExpiryField is %q; accepted: keys separated by dots, such as spec.lifecycle.shutdownTime, or empty for %s", field, defaultExpiryField))
	}
	return errors.Join(faults...)
}

func (o Object) expiryField() string {
	if o.ExpiryField == "" {
		return defaultExpiryField
	}
	return o.ExpiryField
}

// StatusError says that a renewal was answered with a status that is not 2xx. If
// that is 404 or 410, the object is gone, and the error matches [ErrGone].
type StatusError struct {
	Code int
	// Answer is what the server said: the first 500 characters of the content, as
	// [transport.Excerpt] gives them: without the token, the user info and the values
	// of the query, where the server repeats them to the letter.
	Answer string
}

// Error returns the status and, quoted, the answer.
func (e *StatusError) Error() string {
	return strings.TrimSpace(fmt.Sprintf("status %d %s", e.Code, http.StatusText(e.Code))) + fmt.Sprintf(", answer %q", e.Answer)
}

// Is reports whether target is ErrGone, and the object is gone.
func (e *StatusError) Is(target error) bool {
	return target == ErrGone && (e.Code == http.StatusNotFound || e.Code == http.StatusGone)
}

// Patch returns a function for Config.Renew that sends a JSON merge patch (RFC 7396)
// with the expiry, and nothing else, to obj. The expiry is in UTC, in the form of
// RFC 3339 with as many digits of a second as it has. A nil client is
// http.DefaultClient.
//
// Any 2xx is a success. Every other status is a [*StatusError]: redirects too, which
// are not followed, whatever client says. Call [Object.Validate] first: if obj is not
// valid, the function returns what that returns, each time.
//
// An answer is read before the function returns, up to 64 KiB and for up to 1 s, or half
// of the time that is left if that is less, so that the next renewal can use the same
// connection.
//
// The deadline is that of the function's context; client needs none. Many leases may
// share one client: see [BreakerConfig].
func Patch(client *http.Client, obj Object) func(ctx context.Context, expiry time.Time) error {
	if err := obj.Validate(); err != nil {
		return func(context.Context, time.Time) error { return err }
	}
	if client == nil {
		client = http.DefaultClient
	}
	return func(ctx context.Context, expiry time.Time) error {
		return obj.patch(ctx, client, expiry)
	}
}

func (o Object) patch(ctx context.Context, client *http.Client, expiry time.Time) error {
	req, err := o.request(ctx, expiry)
	if err != nil {
		return err
	}
	status, excerpt, err := answer.Brief(client, req)
	switch {
	case err != nil:
		return failed(req, err)
	case status < 200 || status > 299:
		return failed(req, &StatusError{status, excerpt})
	}
	return nil
}

func (o Object) request(ctx context.Context, expiry time.Time) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPatch, o.URL, bytes.NewReader(mergePatch(o.expiryField(), expiry)))
	if err != nil {
		return nil, err // never: the URL is valid
	}
	req.Header.Set("Content-Type", "application/merge-patch+json")
	req.Header.Set("Accept", "application/json")
	if o.Token != nil {
		token, err := o.Token(ctx)
		if err != nil {
			return nil, fmt.Errorf("leaserenewal: Object.Token failed: %w", transport.Redact(req, err))
		}
		if err := checkToken(token); err != nil {
			return nil, err
		}
		req.Header.Set("Authorization", "Bearer "+token)
	}
	return req, nil
}

// checkToken refuses what net/http would: there, it would be the breaker's failure.
func checkToken(token string) error {
	if token == "" {
		return errors.New("leaserenewal: Object.Token returned an empty token; accepted: visible ASCII")
	}
	if i := strings.IndexFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }); i >= 0 {
		return fmt.Errorf("leaserenewal: Object.Token returned a token with byte %d (of %d) outside visible ASCII; accepted: visible ASCII", i, len(token))
	}
	return nil
}

// mergePatch returns the patch that moves the expiry alone.
func mergePatch(field string, expiry time.Time) []byte {
	var patch any = expiry.UTC().Format(time.RFC3339Nano)
	for _, key := range slices.Backward(strings.Split(field, ".")) {
		patch = map[string]any{key: patch}
	}
	body, _ := json.Marshal(patch) // strings and maps of them: there is no error
	return body
}

// failed returns an error that says which renewal it is of.
func failed(req *http.Request, err error) error {
	return fmt.Errorf("leaserenewal: patch of %s://%s%s: %w", req.URL.Scheme, req.URL.Host, req.URL.EscapedPath(), err)
}
