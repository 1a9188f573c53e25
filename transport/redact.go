package transport

import (
	"encoding/base64"
	"math"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"unicode/utf8"
)

// hidden stands in the place of what is left out of a text.
const hidden = "[redacted]"

// Redact returns err for a log: as it is or, if its text may give away what nobody is to
// see, wrapped in an error that has "[redacted]" in the place of
//
//   - the secrets of req that [Excerpt] knows; req may be nil,
//   - URLs,
//   - text in double quotes: so net/http quotes a malformed answer, which may hold a
//     cookie,
//   - all after the first line, where others put the content of an answer, and what makes
//     the text longer than 500 characters.
//
// A secret that stands in the text in another form stays. What is wrapped can still be
// found with errors.Is and errors.As, and has the whole text. The record of [New]'s
// logger, the [breaker.Change] and the [breaker.OpenError] have errors in this form.
func Redact(req *http.Request, err error) error {
	if err == nil {
		return nil
	}
	const most = 500
	text := err.Error()
	clean := suspicious.ReplaceAllString(Excerpt(req, text, math.MaxInt), hidden)
	clean, rest, _ := strings.Cut(clean, "\n")
	if utf8.RuneCountInString(clean) > most || strings.TrimSpace(rest) != "" {
		clean = Excerpt(nil, clean, most-len(hidden)-1) + " " + hidden
	}
	if clean == text {
		return err
	}
	return redacted{err, clean}
}

// suspicious is a quote as a character, quoted text, to the end if that is missing, and a
// URL.
var suspicious = regexp.MustCompile(`'"'|"(?:[^"\\]|\\(?s:.))*(?:"|\\?$)|[A-Za-z][A-Za-z0-9+.-]*://\S*`)

// redacted is an error with another text.
type redacted struct {
	error
	text string
}

func (e redacted) Error() string { return e.text }
func (e redacted) Unwrap() error { return e.error }

// Timeout reports whether the error is a timeout: net/http asks each error for that.
func (e redacted) Timeout() bool {
	timeout, ok := e.error.(interface{ Timeout() bool })
	return ok && timeout.Timeout()
}

// Excerpt returns the first n characters of a text that came from outside, such as the
// content of an answer, with "[redacted]" in the place of what is secret in req, where
// the text repeats it, or as much of it as the text has at its end:
//
//   - the credentials in its Authorization header,
//   - the user name and the password in its URL, and both as basic authentication has
//     them,
//   - the values of its query,
//
// each as it is in req, and as it is encoded in a URL. A secret of fewer than 4 bytes is
// not looked for, since it may be a part of any text. The excerpt is valid UTF-8 of no
// more than n characters, and has nothing of what comes after the first n of the text.
// req may be nil.
func Excerpt(req *http.Request, text string, n int) string {
	secret := secretIn(text, secretsOf(req))
	var excerpt strings.Builder
	for i := 0; i < len(text); {
		next, end := hidden, i
		for end < len(text) && secret[end] {
			end++
		}
		if end > i {
			n -= max(len(hidden), utf8.RuneCountInString(text[i:end]))
		} else {
			r, size := utf8.DecodeRuneInString(text[i:]) // U+FFFD for an invalid byte
			next, end = string(r), i+size
			n--
		}
		if n < 0 {
			break
		}
		excerpt.WriteString(next)
		i = end
	}
	return excerpt.String()
}

const shortestSecret = 4 // bytes

// secretIn tells of each byte of text whether it belongs to a secret, or to the beginning
// of one that the end of text cuts.
func secretIn(text string, secrets []string) []bool {
	belongs := make([]bool, len(text))
	mark := func(from, to int) {
		for i := from; i < to; i++ {
			belongs[i] = true
		}
	}
	for _, secret := range secrets {
		for from, marked := 0, 0; ; from++ { // they may overlap
			at := strings.Index(text[from:], secret)
			if at < 0 {
				break
			}
			from += at
			mark(max(from, marked), from+len(secret))
			marked = from + len(secret)
		}
		for n := len(secret) - 1; n >= shortestSecret; n-- {
			if strings.HasSuffix(text, secret[:n]) {
				mark(len(text)-n, len(text))
				break
			}
		}
	}
	return belongs
}

// secretsOf returns what is secret in a request.
func secretsOf(req *http.Request) []string {
	if req == nil {
		return nil
	}
	var secrets []string
	add := func(secret string) {
		for _, form := range []string{secret, url.QueryEscape(secret), url.PathEscape(secret), url.User(secret).String()} {
			if len(form) >= shortestSecret {
				secrets = append(secrets, form)
			}
		}
	}
	authorization := strings.Fields(req.Header.Get("Authorization"))
	if len(authorization) > 1 {
		authorization = authorization[1:] // without the scheme
	}
	for _, field := range authorization {
		add(field)
	}
	if req.URL == nil {
		return secrets
	}
	if user := req.URL.User; user != nil {
		password, _ := user.Password()
		add(user.Username())
		add(password)
		add(base64.StdEncoding.EncodeToString([]byte(user.Username() + ":" + password)))
	}
	for parameter := range strings.SplitSeq(req.URL.RawQuery, "&") {
		_, value, ok := strings.Cut(parameter, "=")
		if !ok {
			value = parameter
		}
		add(value)
		if decoded, err := url.QueryUnescape(value); err == nil {
			add(decoded)
		}
	}
	return secrets
}
