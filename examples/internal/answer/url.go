package answer

import (
	"fmt"
	"net/url"
	"strings"
)

// URLFault says what is wrong with the URL of a server, or returns "" if it is an
// absolute http or https URL. It shows no part that may be secret.
func URLFault(s string) string {
	if s == "" {
		return "is empty"
	}
	u, err := url.Parse(s)
	switch {
	case err != nil:
		return "is not a URL (it is not shown, since it may hold a password)"
	case u.Host == "" && u.Scheme != "http" && u.Scheme != "https": // user:password@host, say
		return "is not an absolute URL"
	case u.Scheme != "http" && u.Scheme != "https":
		return fmt.Sprintf("has the scheme %q", u.Scheme)
	case u.Hostname() == "":
		return "has no host"
	case strings.Contains(u.RawQuery, " "): // net/http would send it as it is
		return "has a space in its query"
	}
	return ""
}
