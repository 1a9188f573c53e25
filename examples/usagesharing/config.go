package usagesharing

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"regexp"
	"slices"
	"time"

	"github.com/respitehttp/respite/breaker"
	"github.com/respitehttp/respite/examples/internal/answer"
)

// The settings that stand for zero fields of [Config]. The figures are those of the
// 51Degrees usage-sharing specification.
const (
	defaultURL             = "https://devices-v4.51degrees.com/new.ashx"
	defaultRequestTimeout  = 60 * time.Second
	defaultMinEntries      = 50
	defaultMaxQueueSize    = 1000
	defaultRepeatInterval  = 20 * time.Minute
	defaultShutdownTimeout = 5 * time.Second

	mostMinEntries = 100_000
)

// Config holds the settings of a [Sender]. A zero field means its default, so the
// zero Config is complete.
type Config struct {
	// URL is where messages are posted to: http or https. User information in it
	// is sent as basic authentication. Default
	// https://devices-v4.51degrees.com/new.ashx.
	URL string

	// Transport sends the requests, below the back-off and the time limit. If nil,
	// one of the Sender's own does, over HTTP/1.1, whose connections are closed when
	// Run ends. It must heed the context of a request, until its response body is
	// closed, or Run may not end in time.
	Transport http.RoundTripper

	// Breaker says when to pause sending, and for how long. Its OnChange may call
	// the Sender.
	Breaker breaker.Config

	// RequestTimeout is how long the answer to a message may take. Choose it
	// shorter than Breaker.TrialTimeout (2 min by default): a trial that takes
	// longer than that has failed, whatever comes of it. Above 0; default 60 s.
	RequestTimeout time.Duration

	// MinEntriesPerMessage is how many entries a message holds at least, except
	// when Run ends; at most it holds twice as many. 1 to 100,000; default 50.
	MinEntriesPerMessage int

	// MaxQueueSize is how many entries may wait to be sent; the message in flight
	// is not among them. At least MinEntriesPerMessage; default the larger of 1000
	// and 10 x MinEntriesPerMessage.
	MaxQueueSize int

	// SharePercentage is the part of the evidence that is shared, chosen by
	// chance. 0 to 1, where 0 means the default, 1. To share nothing, do not call
	// Add.
	SharePercentage float64

	// RepeatEvidenceInterval is for how long evidence that was shared is not
	// shared again if it comes again. Above 0; default 20 min.
	RepeatEvidenceInterval time.Duration

	// BlockedHTTPHeaders names the headers that are not shared, such as "cookie" (and
	// not "header.cookie"), in any case of letters. If nil, "cookie" is blocked. A list takes the place of that,
	// so name cookie in it too; one that is empty but not nil blocks none. Note that
	// "authorization" is not blocked by default: block it, or do not add it.
	BlockedHTTPHeaders []string

	// IncludedQueryStringParameters names the query parameters that are shared, in
	// any case of letters, beside those that start with "51D_".
	IncludedQueryStringParameters []string

	// ShareAllQueryStringParameters shares every query parameter.
	ShareAllQueryStringParameters bool

	// ShareAllEvidence shares everything, also cookies and the headers that are
	// blocked otherwise.
	ShareAllEvidence bool

	// Product, Version, FlowElements and ServerIP are sent with each entry: the name
	// and version of the program, the names of what it does with the evidence, and the
	// address of its machine. They are values like those of evidence: of each, the
	// first 512 characters are sent, with U+FFFD for what XML forbids. Default: empty.
	Product, Version string
	FlowElements     []string
	ServerIP         string

	// ShutdownTimeout is how long sending may go on after the context of Run has
	// ended. Above 0; default 5 s.
	ShutdownTimeout time.Duration

	// Logger gets a record of each message that fails, of a full queue, of what is
	// dropped at the end, and of the pauses. That of a message that fails holds the
	// first 500 characters of the answer, without the user info and the query values of
	// URL where it repeats them to the letter ([transport.Excerpt]), or the error, as
	// [transport.Redact] gives it. If nil, slog.Default() at that time does.
	Logger *slog.Logger
}

// headerName is the form of a header's name (RFC 9110, section 5.6.2).
var headerName = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]+$")

// withDefaults returns the config with the zero fields set and nothing shared with
// the caller's, and an error that lists every field that is outside its range.
func (c Config) withDefaults() (Config, error) {
	var faults []error
	refuse := func(field string, value any, accepted string) {
		faults = append(faults, fmt.Errorf("usagesharing: %s is %v; accepted: %s", field, value, accepted))
	}
	positive := func(field string, d *time.Duration, standard time.Duration) {
		if *d < 0 {
			refuse(field, *d, fmt.Sprintf("> 0, or 0 for %v", standard))
		}
		*d = cmp.Or(*d, standard)
	}

	c.URL = cmp.Or(c.URL, defaultURL)
	if fault := answer.URLFault(c.URL); fault != "" {
		faults = append(faults, fmt.Errorf("usagesharing: URL %s; accepted: an http or https URL with a host, or empty for %s", fault, defaultURL))
	}
	positive("RequestTimeout", &c.RequestTimeout, defaultRequestTimeout)
	c.MinEntriesPerMessage = cmp.Or(c.MinEntriesPerMessage, defaultMinEntries)
	least := min(max(c.MinEntriesPerMessage, 1), mostMinEntries)
	if c.MinEntriesPerMessage != least {
		refuse("MinEntriesPerMessage", c.MinEntriesPerMessage, fmt.Sprintf("1 to %d, or 0 for %d", mostMinEntries, defaultMinEntries))
	}
	c.MaxQueueSize = cmp.Or(c.MaxQueueSize, max(defaultMaxQueueSize, 10*least))
	if c.MaxQueueSize < least {
		refuse("MaxQueueSize", c.MaxQueueSize, fmt.Sprintf(">= MinEntriesPerMessage (%d), or 0 for the larger of %d and 10 times that", least, defaultMaxQueueSize))
	}
	c.SharePercentage = cmp.Or(c.SharePercentage, 1)
	if p := c.SharePercentage; !(p >= 0 && p <= 1) { // NaN is refused by the negation
		refuse("SharePercentage", p, "0 to 1, where 0 means 1")
	}
	positive("RepeatEvidenceInterval", &c.RepeatEvidenceInterval, defaultRepeatInterval)
	if c.BlockedHTTPHeaders == nil {
		c.BlockedHTTPHeaders = []string{"cookie"}
	}
	for i, name := range c.BlockedHTTPHeaders {
		if element, _ := elementOf(name); element != "evidence" || !headerName.MatchString(name) {
			refuse(fmt.Sprintf("BlockedHTTPHeaders[%d]", i), fmt.Sprintf("%q", name), "the name of a header, such as cookie")
		}
	}
	positive("ShutdownTimeout", &c.ShutdownTimeout, defaultShutdownTimeout)

	c.BlockedHTTPHeaders = slices.Clone(c.BlockedHTTPHeaders)
	c.IncludedQueryStringParameters = slices.Clone(c.IncludedQueryStringParameters)
	c.FlowElements = slices.Clone(c.FlowElements)
	return c, errors.Join(faults...)
}
