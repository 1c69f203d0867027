package proxy

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"

	"github.com/purserpay/purser/internal/declines"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/protocol"
	"github.com/purserpay/purser/x402"
)

// carrier knows where in a message a challenge, a credential and the seller's answer to it travel, and
// where purser's own words to the client do. Answers that it reads can be handed on as they came.
type carrier interface {
	// arrived reads on in an answer as far as it takes to know what it says, and keeps that for the client. late, nil
	// for the answer to an unpaid request, hears what comes too late for that in words of a protocol, and returns
	// what the client gets in its place; nil: that itself.
	arrived(resp *http.Response, p protocol.Protocol, late func(protocol.Answer) *problem)
	// asks reports whether an answer asks for money.
	asks(resp *http.Response) bool
	// offers reads the challenge of an answer that asks. found is true, with an error, for one that cannot
	// be read, and for one that the request has no room to answer.
	offers(req *http.Request, resp *http.Response) (c x402.Challenge, found bool, err error)
	// booked returns the URL of a request as it goes into the books.
	booked(u *url.URL) string
	// identity returns what repeats of a request are recognized by. asked is the client's URL.
	identity(req *http.Request, asked string, body content) *pay.HTTPRequest
	// room says why a request has no place for a payload; nil: it has.
	room(req *http.Request, p protocol.Protocol, payload x402.Payload) error
	// attach puts a credential into a request that is about to be sent, with its body.
	attach(out *http.Request, p protocol.Protocol, credential x402.Payload)
	// answer reads what an answer to a credential says of the payment, as far as it has come.
	answer(resp *http.Response, p protocol.Protocol) protocol.Answer
	// refusal reads on in an answer that refuses. A body that does not end is cut off, because the
	// payment's lease must not be kept for ever.
	refusal(resp *http.Response, p protocol.Protocol, patience time.Duration) protocol.Answer
	// words returns what a refusal says of the payment beside its challenge. A body that does not end is cut off.
	words(resp *http.Response, patience time.Duration) string
	// explain tells the client why nothing was paid. The challenge stays.
	explain(req *http.Request, resp *http.Response, why Explanation, patience time.Duration)
	// lastEvent returns what finds the end of an answer that is a stream; nil: it has none of its own.
	lastEvent(resp *http.Response) *lastEvent
	// came reports whether the answer that was last looked at has come, as far as it was read.
	came() bool
	// own makes an answer of purser's own, in the place of the seller's, one that the client takes for an answer.
	own(req *http.Request, resp *http.Response, p problem)
	// withhold puts words of purser's in the place of a challenge. told is for headers.
	withhold(req *http.Request, resp *http.Response, p problem, told string)
}

// httpCarrier is plain HTTP: status 402, with challenge and credential in the header. Challenges may be in
// the body as well.
type httpCarrier struct{ protocols protocol.List }

var _ carrier = httpCarrier{}

func (httpCarrier) arrived(*http.Response, protocol.Protocol, func(protocol.Answer) *problem) {}

func (httpCarrier) asks(resp *http.Response) bool {
	return resp.StatusCode == http.StatusPaymentRequired
}

// offers reads the body, at most 64 KiB of it, if no field of the header has a challenge of x402, which may be there.
func (c httpCarrier) offers(req *http.Request, resp *http.Response) (x402.Challenge, bool, error) {
	if challenge, found, err := c.protocols.Offers(req.Header, resp.Header, nil); found && challenge.Version < x402.OtherProtocols {
		takeIn(resp)
		return challenge, true, err
	}
	return c.protocols.Offers(req.Header, resp.Header, beginning(resp))
}

func (httpCarrier) booked(u *url.URL) string { return bookedURL(u) }

func (httpCarrier) identity(req *http.Request, asked string, body content) *pay.HTTPRequest {
	return &pay.HTTPRequest{Method: methodOf(req), URL: asked, Body: body.sum, Plain: body.plain}
}

func (httpCarrier) room(req *http.Request, p protocol.Protocol, payload x402.Payload) error {
	return p.Room(req.Header, payload)
}

func (httpCarrier) attach(out *http.Request, p protocol.Protocol, credential x402.Payload) {
	out.Header.Set(p.Credential(credential))
}

func (httpCarrier) answer(resp *http.Response, p protocol.Protocol) protocol.Answer {
	return p.Answer(resp.StatusCode, resp.Header, nil)
}

func (c httpCarrier) refusal(resp *http.Response, p protocol.Protocol, patience time.Duration) protocol.Answer {
	source := resp.Body
	cut := time.AfterFunc(patience, func() { _ = source.Close() })
	defer cut.Stop()
	if said := c.answer(resp, p); said.Found {
		takeIn(resp)
		return said
	}
	return p.Answer(resp.StatusCode, resp.Header, beginning(resp))
}

func (httpCarrier) words(resp *http.Response, patience time.Duration) string {
	return wordsOf(resp, patience)
}

func (httpCarrier) explain(req *http.Request, resp *http.Response, why Explanation, patience time.Duration) {
	why.into(req, resp, patience)
}

func (httpCarrier) lastEvent(resp *http.Response) *lastEvent { return lastEventOf(resp) }

func (httpCarrier) came() bool { return true }

func (httpCarrier) own(*http.Request, *http.Response, problem) {}

func (c httpCarrier) withhold(req *http.Request, resp *http.Response, p problem, told string) {
	c.protocols.Withhold(resp.Header)
	resp.Header.Del("WWW-Authenticate") // has the challenges of protocols that purser does not speak
	_ = resp.Body.Close()
	p.Do = declines.Do(p.Reason)
	setBody(req, resp, p)
	mark(req, resp.Header, p.Reason, told, told)
	neverStored(resp.Header)
}

// askedURL returns the URL that repeats of the call are recognized by. It is the same for all attempts,
// so that a further one finds the payment of the first.
func (c *Call) askedURL(req *http.Request) string {
	if c.asked == "" && c.URL != nil {
		c.asked = c.URL()
	}
	if c.asked == "" {
		c.asked = bookedURL(req.URL)
	}
	return c.asked
}

// carrierFor returns the carrier of the call that a request belongs to.
func (t *Transport) carrierFor(req *http.Request) carrier {
	if call := callOf(req.Context()); call != nil && call.carrier != nil {
		return call.carrier
	}
	return t.carrier
}

func methodOf(req *http.Request) string { return cmp.Or(req.Method, http.MethodGet) }

// maxBooked bounds what the books keep of a URL.
const maxBooked = 8 << 10

// short cuts a booked URL that is too long: the query first, then the path as well. It escapes bytes
// beyond UTF-8. Repeats are recognized by the whole URL as it came.
func short(u *url.URL, booked string) string {
	c := *u
	c.RawQuery, c.ForceQuery = "", false
	if len(booked) > maxBooked {
		booked = bookedURL(&c)
	}
	if len(booked) > maxBooked {
		c.Path, c.RawPath = "/", ""
		booked = bookedURL(&c)
	}
	if utf8.ValidString(booked) {
		return booked
	}
	var text strings.Builder // a query may have any bytes
	for _, b := range []byte(booked) {
		if b < utf8.RuneSelf {
			text.WriteByte(b)
		} else {
			fmt.Fprintf(&text, "%%%02X", b)
		}
	}
	return text.String()
}

// bookedURL returns a request's URL as it goes into the books.
func bookedURL(u *url.URL) string {
	c := *u
	c.User, c.Fragment, c.RawFragment = nil, "", ""
	return c.String()
}

// beginning reads what may be a challenge of an answer's body, and puts it back.
func beginning(resp *http.Response) []byte {
	coding := resp.Header.Get("Content-Encoding")
	read, err := readObject(resp.Body, coding == "")
	putBack(resp, read, err)
	return decoded(read, coding)
}

// takeIn reads a body that comes with the headers, as that beside a challenge mostly does: with HTTP/1
// the connection is free then, and takes the paid request.
func takeIn(resp *http.Response) {
	if resp.ContentLength <= 0 || resp.ContentLength > x402.MaxChallengeBytes || resp.Body == http.NoBody {
		return
	}
	read, err := io.ReadAll(resp.Body)
	putBack(resp, read, err)
}

// putBack puts what was read of a body in front of it. err is what reading it ended with.
func putBack(resp *http.Response, read []byte, err error) {
	rest := io.Reader(resp.Body)
	if err != nil {
		rest = failing{err}
	}
	resp.Body = rejoined{io.MultiReader(bytes.NewReader(read), rest), resp.Body}
}

// readObject reads as much as may be a challenge. A plain body that does not begin as a
// JSON object is none, and is not waited for: it may be a page, or a stream.
func readObject(body io.Reader, plain bool) ([]byte, error) {
	var b []byte
	for len(b) <= x402.MaxChallengeBytes {
		b = slices.Grow(b, 4<<10)
		n, err := body.Read(b[len(b):min(cap(b), x402.MaxChallengeBytes+1)])
		b = b[:len(b)+n]
		if errors.Is(err, io.EOF) {
			return b, nil
		}
		if err != nil {
			return b, err
		}
		if text := bytes.TrimLeft(bytes.TrimPrefix(b, []byte("\ufeff")), " \t\r\n"); plain && len(text) > 0 && text[0] != '{' {
			break
		}
	}
	return b, nil
}

// rejoined is a body with what was read of it in front again.
type rejoined struct {
	io.Reader
	io.Closer
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// decoded undoes the seller's content coding, because a v1 challenge is in the body. If it cannot,
// it returns the body as it is, which is no challenge then.
func decoded(body []byte, coding string) []byte {
	plain, err := decoder(bytes.NewReader(body), coding)
	if err != nil || plain == nil {
		return body
	}
	// Cut short it is too large for a challenge, which its reader says.
	out, err := io.ReadAll(io.LimitReader(plain, x402.MaxChallengeBytes+1))
	if err != nil && len(out) == 0 {
		return body
	}
	return out
}

// maxCodings bounds the content codings of one answer.
const maxCodings = 3

// decoder undoes content codings, of which the last one was applied last. It returns nil if there is none, or one that it
// does not know.
func decoder(body io.Reader, codings string) (plain io.Reader, err error) {
	list := strings.Split(strings.ToLower(codings), ",")
	if len(list) > maxCodings {
		return nil, nil
	}
	for _, coding := range slices.Backward(list) {
		if coding = strings.TrimSpace(coding); coding == "" || coding == "identity" {
			continue
		}
		if plain, err = decoderOf(body, coding); err != nil || plain == nil {
			return nil, err
		}
		body = plain
	}
	return plain, nil
}

func decoderOf(body io.Reader, coding string) (io.Reader, error) {
	switch coding {
	case "gzip", "x-gzip":
		return gzip.NewReader(body)
	case "deflate": // zlib by the standard, bare deflate by some
		ahead := bufio.NewReader(body)
		if head, _ := ahead.Peek(2); len(head) == 2 && head[0]&0x0f == 8 && binary.BigEndian.Uint16(head)%31 == 0 {
			return zlib.NewReader(ahead)
		}
		return flate.NewReader(ahead), nil
	case "br":
		return brotli.NewReader(body), nil
	case "zstd":
		// Without concurrency nothing runs that would have to be closed.
		return zstd.NewReader(body, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(8<<20))
	}
	return nil, nil
}
