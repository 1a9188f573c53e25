package usagesharing_test

import (
	"io"
	"net/http"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/respitehttp/respite/examples/usagesharing"
	"github.com/respitehttp/respite/httptestutil"
)

// U8, U9: a message to the letter. In a bubble it is midnight on 2000-01-01.
func TestMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var req *http.Request
		var document string
		s := newSender(t, usagesharing.Config{
			URL:     "http://usage.example.com/new.ashx",
			Product: "shop", Version: "1.2", FlowElements: []string{"One", "Two"}, ServerIP: "198.51.100.7",
			Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
				req = r
				plain, err := unzip(r.Body)
				require.NoError(t, err)
				document = plain
				return httptestutil.Status(200, "")(r)
			}),
		})
		time.Sleep(13*time.Hour + 5*time.Minute + 9*time.Second)
		s.Add(usagesharing.Evidence{
			"header.User-Agent": `Mozilla/5.0 <"&'>`, "header.accept": "*/*", "cookie.51D_x": "c", "query.51D_a b": "q", "server.host": "h", "screen": "s", "a.b": "",
			"query.session-id": "5f9c", "query.sequence": "+07", "server.client-ip": "192.0.2.1",
		})
		s.Add(usagesharing.Evidence{"header.": "x"})
		drain(t, s)

		program := `<DateSent>2000-01-01T13:05:09</DateSent><Version>1.2</Version><Product>shop</Product>` +
			`<FlowElement>One</FlowElement><FlowElement>Two</FlowElement>` +
			`<Language>Go</Language><LanguageVersion>` + runtime.Version() + `</LanguageVersion>`
		server := `<ServerIP>198.51.100.7</ServerIP><Platform>` + runtime.GOOS + "/" + runtime.GOARCH + `</Platform>`
		assert.Equal(t, `<Devices version="1.1">`+
			`<Device><SessionId>5f9c</SessionId><Sequence>+07</Sequence>`+program+`<ClientIP>192.0.2.1</ClientIP>`+server+
			`<cookie Name="51D_x">c</cookie>`+
			`<evidence Name="a.b"></evidence><evidence Name="screen">s</evidence>`+
			`<header Name="User-Agent">Mozilla/5.0 &lt;&#34;&amp;'&gt;</header><header Name="accept">*/*</header>`+
			`<query Name="51D_a b">q</query>`+
			`<server Name="host">h</server></Device>`+
			`<Device><SessionId></SessionId>`+program+`<ClientIP></ClientIP>`+server+
			`<header Name="">x</header></Device>`+
			`</Devices>`, document)

		assert.Equal(t, http.MethodPost, req.Method)
		assert.Equal(t, "http://usage.example.com/new.ashx", req.URL.String())
		assert.Equal(t, http.Header{"Content-Encoding": {"gzip"}, "Content-Type": {"text/xml; charset=utf-8"}}, req.Header)
		assert.Positive(t, req.ContentLength, "of known length, so not chunked")
		assert.NotNil(t, req.GetBody, "so that a stale connection is no failure")
	})
}

// U9: of a session id, a sequence or a client address that is there in several cases of
// letters, the one whose key is the first is sent, and no other.
func TestKeysInSeveralCases(t *testing.T) {
	e := usagesharing.Evidence{
		"query.session-id": "1", "Query.Session-ID": "2", "query.Session-id": "3",
		"server.client-ip": "192.0.2.1", "SERVER.client-ip": "192.0.2.2",
		"query.sequence": "1", "query.SEQUENCE": "2", "header.A": "x", "header.a": "x",
	}
	for range 20 { // a map has no order
		d := sent(t, usagesharing.Config{}, e)
		assert.Equal(t, "2", d.find("SessionId", "").text)
		assert.Equal(t, "192.0.2.2", d.find("ClientIP", "").text)
		assert.Equal(t, "2", d.find("Sequence", "").text)
		assert.Equal(t, []string{"header.A", "header.a"}, d.evidence())
	}
}

// U9: Sequence is left out, and that logged at Debug, if it is no integer.
func TestSequence(t *testing.T) {
	for value, want := range map[string]string{
		"0": "0", "12": "12", "-3": "-3", "+4": "+4", "007": "007", "9223372036854775807": "9223372036854775807",
		"": "", " 1": "", "1.5": "", "1e3": "", "0x10": "", "1_000": "", "9223372036854775808": "", "<": "", "no number": "",
		strings.Repeat("0", 510) + "17": strings.Repeat("0", 510) + "17", strings.Repeat("0", 511) + "17": "", strings.Repeat("0", 600) + "x": "",
	} {
		logged := new(records)
		e := visitor(1)
		e["Query.Sequence"] = value
		d := sent(t, usagesharing.Config{Logger: logged.logger()}, e)
		if want == "" {
			assert.NotContains(t, d.names(), "Sequence", "%q", value)
			assert.Equal(t, []string{"DEBUG usage sharing: sequence left out: it is no integer"}, logged.with(""), "%q", value)
		} else {
			assert.Equal(t, want, d.find("Sequence", "").text)
			assert.Empty(t, logged.with(""), "%q", value)
		}
	}
	logged := new(records)
	d := sent(t, usagesharing.Config{Logger: logged.logger()}, visitor(1))
	assert.NotContains(t, d.names(), "Sequence")
	assert.Empty(t, logged.with(""), "no sequence is nothing to log")
}

// U9: values, as a parser reads them.
func TestHostileValues(t *testing.T) {
	const emoji = "\U0001F600"
	x := func(n int) string { return strings.Repeat("x", n) }
	for name, c := range map[string]struct {
		value, want string
		marks       string
	}{
		"empty":                         {"", "", ""},
		"markup":                        {`</header></Device><Device a='b' c="d">`, `</header></Device><Device a='b' c="d">`, ""},
		"the end of a CDATA section":    {"<![CDATA[ ]]>", "<![CDATA[ ]]>", ""},
		"entities":                      {"&amp; &lt; &#0; &x;", "&amp; &lt; &#0; &x;", ""},
		"a comment":                     {"<!-- -->", "<!-- -->", ""},
		"white space":                   {" \t\r\n ", " \t\r\n ", ""},
		"a carriage return":             {"a\rb\r\nc", "a\rb\r\nc", ""},
		"control characters":            {"a\x00b\x1fc\x7f", "a\uFFFDb\uFFFDc\x7f", "escaped"},
		"an escape sequence":            {"\x1b[31mred", "\uFFFD[31mred", "escaped"},
		"noncharacters":                 {"\uFFFE\uFFFF", "\uFFFD\uFFFD", "escaped"},
		"a replacement character":       {"\uFFFD", "\uFFFD", ""},
		"the highest character":         {"\U0010FFFF\uE000\uD7FF\u0085\u2028", "\U0010FFFF\uE000\uD7FF\u0085\u2028", ""},
		"each invalid byte":             {"\xff\xfe", "\uFFFD\uFFFD", "escaped"},
		"a lone surrogate":              {"\xed\xa0\x80", "\uFFFD\uFFFD\uFFFD", "escaped"},
		"an overlong slash":             {"\xc0\xaf", "\uFFFD\uFFFD", "escaped"},
		"half a character":              {"\xf0\x9f\x98", "\uFFFD\uFFFD\uFFFD", "escaped"},
		"512 characters":                {x(512), x(512), ""},
		"513 characters":                {x(513), x(512), "truncated"},
		"512 of two bytes":              {strings.Repeat("é", 512), strings.Repeat("é", 512), ""},
		"513 of two bytes":              {strings.Repeat("é", 513), strings.Repeat("é", 512), "truncated"},
		"an emoji as the 512th":         {x(511) + emoji, x(511) + emoji, ""},
		"an emoji as the 512th and one": {x(511) + emoji + "y", x(511) + emoji, "truncated"},
		"an emoji as the 513th":         {x(512) + emoji, x(512), "truncated"},
		"counted before escaping":       {strings.Repeat("<", 512), strings.Repeat("<", 512), ""},
		"513 invalid bytes":             {strings.Repeat("\xff", 513), strings.Repeat("\uFFFD", 512), "escaped truncated"},
		"forbidden only where it's cut": {x(512) + "\x00", x(512), "truncated"},
		"one megabyte":                  {strings.Repeat("\x00é", 1<<19), strings.Repeat("\uFFFDé", 256), "escaped truncated"},
	} {
		t.Run(name, func(t *testing.T) {
			d := sent(t, usagesharing.Config{}, usagesharing.Evidence{"header.h": c.value, "query.session-id": c.value, "server.client-ip": c.value})
			for _, e := range []element{d.find("header", "h"), d.find("SessionId", ""), d.find("ClientIP", "")} {
				assert.Equal(t, c.want, e.text)
				assert.Equal(t, c.marks, marks(e))
			}
		})
	}
}

// U9: names, and origins, as a parser reads them.
func TestHostileNames(t *testing.T) {
	for key, want := range map[string][2]string{
		"":                            {"evidence", ""},
		" ":                           {"evidence", " "},
		".":                           {"evidence", "."},
		"header.":                     {"header", ""},
		"header. a b ":                {"header", " a b "},
		"HEADER.a.b":                  {"header", "a.b"},
		"header.\t\r\n":               {"header", "\t\r\n"},
		`header.a" Name="b`:           {"header", `a" Name="b`},
		`header."/><x y='`:            {"header", `"/><x y='`},
		"server.&quot;":               {"server", "&quot;"},
		"cookie.51D_\x00\xff":         {"cookie", "51D_\uFFFD\uFFFD"},
		"x><Device>.a":                {"evidence", "x><Device>.a"},
		"session-id":                  {"evidence", "session-id"},
		"header.session-id":           {"header", "session-id"},
		"Devices.a":                   {"evidence", "Devices.a"},
		"header:Name.a":               {"evidence", "header:Name.a"},
		"ſerver.a":                    {"server", "a"}, // a long s is one in another case
		"query.51D_" + long(1<<16):    {"query", "51D_" + long(1<<16)},
		"header.\xf0\x9f\x98\x80\xf0": {"header", "\U0001F600\uFFFD"},
	} {
		d := sent(t, usagesharing.Config{}, usagesharing.Evidence{key: "value"})
		e := d.children[len(d.children)-1]
		assert.Equal(t, want, [2]string{e.name, e.attrs["Name"]}, "%.40q", key)
		assert.Equal(t, "value", e.text)
		assert.Len(t, e.attrs, 1, "%.40q: the marks are for the value", key)
	}
}

// U9: what comes from the configuration is valid XML, too.
func TestHostileConfiguration(t *testing.T) {
	d := sent(t, usagesharing.Config{Product: "<a>\x00", Version: `"&"`, FlowElements: []string{"</FlowElement>", ""}, ServerIP: "\xff"}, visitor(1))
	assert.Equal(t, "<a>\uFFFD", d.find("Product", "").text)
	assert.Equal(t, "escaped", marks(d.find("Product", "")))
	assert.Equal(t, `"&"`, d.find("Version", "").text)
	assert.Equal(t, "</FlowElement>", d.find("FlowElement", "").text)
	assert.Equal(t, "\uFFFD", d.find("ServerIP", "").text)
	assert.Equal(t, []string{"SessionId", "DateSent", "Version", "Product", "FlowElement", "FlowElement", "Language", "LanguageVersion", "ClientIP", "ServerIP", "Platform", "header"}, d.names())
}

// The buffer of a message belongs to its request: the next message does not change it.
func TestMessagesShareNoBuffer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var bodies []io.ReadCloser
		s := newSender(t, usagesharing.Config{MinEntriesPerMessage: 1, Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
			bodies = append(bodies, r.Body) // read when the requests are over
			return httptestutil.Status(200, "")(r)
		})})
		stop := start(t, s)
		for i := range 5 {
			add(s, i, 1)
			synctest.Wait()
		}
		stop()
		for i, body := range bodies {
			devices, err := decode(body)
			require.NoError(t, err)
			assert.Equal(t, []string{agent(i)}, agents(message{devices: devices}))
		}
	})
}

// FuzzMessage: whatever the evidence holds, the document parses, has one Device per
// entry with the elements of U9 and no others, and everything in it reads as it was
// given. Whatever is markup in it is known.
func FuzzMessage(f *testing.F) {
	f.Add("header.user-agent", "Mozilla/5.0", "cookie.51D_x", "1", "query.sequence", "1")
	f.Add("", "", ".", "]]>", "query.session-id", "\x00")
	f.Add(`header."><x y="`, "<!--", "header. ", "\xff\xed\xa0\x80", "QUERY.sequence", "<")
	f.Add("server.client-ip", "&#60;", "server.client-ip ", strings.Repeat("\U0001F600", 513), "a\r\n", "\t\r\n")
	f.Fuzz(func(t *testing.T, k1, v1, k2, v2, k3, v3 string) {
		e := usagesharing.Evidence{k1: v1, k2: v2, k3: v3}
		var document string
		s := newSender(t, usagesharing.Config{
			ShareAllEvidence: true,
			Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
				document, _ = unzip(r.Body)
				return httptestutil.Status(200, "")(r)
			}),
		})
		queued := s.Add(e)
		s.Add(visitor(1))
		drain(t, s)

		devices, err := parse(document)
		require.NoError(t, err)
		assert.True(t, utf8.ValidString(document))
		assert.NotRegexp(t, "[\x00-\x1f]", document)
		for _, tag := range regexp.MustCompile(`<[^>]*>`).FindAllString(document, -1) {
			assert.Regexp(t, knownTag, tag)
		}
		require.Len(t, devices, map[bool]int{true: 2, false: 1}[queued])
		if !queued {
			return
		}
		var special int
		for k := range e {
			if slices.ContainsFunc([]string{"query.session-id", "query.sequence", "server.client-ip"}, func(s string) bool { return strings.EqualFold(s, k) }) {
				special++
			}
		}
		assert.Len(t, devices[0].evidence(), len(e)-special)
		for _, child := range devices[0].children {
			name, ok := child.attrs["Name"]
			if !ok {
				continue
			}
			assert.True(t, came(e, child.name, name, child.text), "%s %q %q", child.name, name, child.text)
		}
	})
}

var knownTag = regexp.MustCompile(`^<(Devices version="1\.1"` +
	`|(header|cookie|query|server|evidence) Name="[^"<>]*"( escaped="true")?( truncated="true")?` +
	`|(SessionId|ClientIP)( escaped="true")?( truncated="true")?` +
	`|(Device|Sequence|DateSent|Version|Product|Language|LanguageVersion|ServerIP|Platform)` +
	`|/(Devices|Device|Sequence|DateSent|Version|Product|Language|LanguageVersion|ServerIP|Platform|SessionId|ClientIP|header|cookie|query|server|evidence))>$`)

// came reports whether evidence of that element, name and value was given.
func came(e usagesharing.Evidence, element, name, value string) bool {
	for k, v := range e {
		if (element == "evidence" && clean(k) == name || strings.EqualFold(clean(k), element+"."+name)) && firstRunes(clean(v), 512) == value {
			return true
		}
	}
	return false
}

// clean and firstRunes say what U9 says, slowly.
func clean(s string) string {
	r := []rune(s)
	for i := range r {
		if r[i] < 0x20 && r[i] != 9 && r[i] != 10 && r[i] != 13 || r[i] == 0xFFFE || r[i] == 0xFFFF {
			r[i] = 0xFFFD
		}
	}
	return string(r)
}

func firstRunes(s string, n int) string {
	r := []rune(s)
	return string(r[:min(n, len(r))])
}

func long(n int) string { return strings.Repeat("n", n) }

// marks returns the marks of an element.
func marks(e element) string {
	var all []string
	for _, mark := range []string{"escaped", "truncated"} {
		if e.attrs[mark] == "true" {
			all = append(all, mark)
		}
	}
	return strings.Join(all, " ")
}

// sent returns what a receiver gets of the evidence.
func sent(t *testing.T, cfg usagesharing.Config, e usagesharing.Evidence) element {
	t.Helper()
	svc := newService(t, httptestutil.Status(200, ""))
	cfg.Transport = svc
	s := newSender(t, cfg)
	require.True(t, s.Add(e))
	drain(t, s)
	messages := svc.received()
	require.Len(t, messages, 1)
	require.Len(t, messages[0].devices, 1)
	return messages[0].devices[0]
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
