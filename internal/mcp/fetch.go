package mcp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/purserpay/purser/internal/agent"
	"github.com/purserpay/purser/money"
)

const fetchHelp = `Makes one HTTP request and pays for it if the API answers 402 Payment Required (x402) and the limits allow it.
Returns status, headers, body, and in "paid" what was paid. A free answer comes back as it is. What is not paid is an error
with the reason. Redirections are not followed: call again with the URL of the Location header.
If no answer arrives (time-out, cancelled, broken off), call again with the same arguments: purser does not pay twice for
the same request whose answer was lost. Give an idempotency_key for any purchase that must happen only once.`

// fetchInput holds the arguments of fetch_paid.
type fetchInput struct {
	URL            string            `json:"url" jsonschema:"http or https URL"`
	Method         string            `json:"method,omitempty" jsonschema:"HTTP method; default: GET, with a body POST"`
	Headers        map[string]string `json:"headers,omitempty" jsonschema:"headers of the request, such as Accept or Content-Type"`
	Body           string            `json:"body,omitempty" jsonschema:"body of the request, as text; sent as application/json unless headers say otherwise"`
	MaxAmount      string            `json:"max_amount,omitempty" jsonschema:"the most that this request may cost, in USDC, such as 0.05; above it nothing is paid"`
	IdempotencyKey string            `json:"idempotency_key,omitempty" jsonschema:"a name for this one purchase, 1 to 255 visible ASCII characters. However often it is repeated with the same name, the request is paid at most once. Repeat a call whose answer was lost with the same name; use a new name to buy again"`
}

// fetched is the result of fetch_paid.
type fetched struct {
	Status     int               `json:"status"`
	Headers    map[string]string `json:"headers,omitempty"`
	Paid       *paid             `json:"paid,omitempty" jsonschema:"what was paid; absent if the answer was free"`
	Note       string            `json:"note,omitempty" jsonschema:"what is to be known of the body, such as that it was cut"`
	Body       string            `json:"body,omitempty" jsonschema:"the body, if it is text"`
	BodyBase64 string            `json:"body_base64,omitempty" jsonschema:"the body, if it is neither text nor an image"`
}

type paid struct {
	Payment     string `json:"payment" jsonschema:"id of the payment"`
	Amount      string `json:"amount,omitempty"`
	Transaction string `json:"transaction,omitempty" jsonschema:"the transaction on the chain, once it is known"`
}

func addFetch(s *sdk.Server, o Options) {
	yes := true
	sdk.AddTool(s, &sdk.Tool{
		Name: "fetch_paid", Description: fetchHelp,
		Annotations: &sdk.ToolAnnotations{Title: "Fetch, and pay if asked", DestructiveHint: &yes, OpenWorldHint: &yes},
	}, func(ctx context.Context, _ *sdk.CallToolRequest, in fetchInput) (*sdk.CallToolResult, *fetched, error) {
		r, err := in.request(ctx)
		if err != nil {
			return nil, nil, err
		}
		c, err := o.Connect(ctx)
		if err != nil {
			return nil, nil, err
		}
		resp, err := c.Do(r)
		if err != nil {
			return nil, nil, in.unanswered(err)
		}
		defer func() { _ = resp.Body.Close() }()
		if err := declined(resp); err != nil {
			return nil, nil, err
		}
		f := &fetched{Status: resp.StatusCode, Headers: selected(resp.Header), Paid: paidOf(resp.Header)}
		image, err := f.read(resp, o.MaxBody)
		if err != nil {
			return nil, nil, in.brokenOff(err, f.Paid)
		}
		res, err := asText(f)
		if err == nil && image != nil {
			res.Content = append(res.Content, image)
		}
		return res, f, err
	})
}

// taken are headers that are not the agent's to set, with the reason for it.
var taken = map[string]string{
	"Idempotency-Key":   "use the argument idempotency_key",
	"Purser-Max-Amount": "use the argument max_amount",
	"Purser-Dry-Run":    "use the tool quote",
	"X-Payment":         "purser makes the payment",
	"Payment-Signature": "purser makes the payment",
	"Host":              "it is that of the URL",
	"Content-Length":    "it is that of the body",
}

// request is the request that the arguments describe. It checks them before anything is sent.
func (in fetchInput) request(ctx context.Context) (*http.Request, error) {
	target, err := parseTarget(in.URL)
	if err != nil {
		return nil, err
	}
	method := strings.ToUpper(cmp.Or(in.Method, map[bool]string{true: http.MethodPost}[in.Body != ""], http.MethodGet))
	if method == http.MethodConnect {
		return nil, errors.New("method CONNECT cannot be sent")
	}
	r, err := http.NewRequestWithContext(ctx, method, target.String(), strings.NewReader(in.Body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Accept", "application/json, text/*;q=0.9, */*;q=0.8")
	r.Header.Set("User-Agent", "purser-mcp")
	if in.Body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for name, value := range in.Headers {
		canonical := http.CanonicalHeaderKey(name)
		why, not := taken[canonical]
		if strings.HasPrefix(canonical, "Purser-") || strings.HasPrefix(canonical, "Proxy-") {
			why, not = cmp.Or(why, "it is between purser and its clients"), true
		}
		if not {
			return nil, fmt.Errorf("headers: %s cannot be set: %s", canonical, why)
		}
		r.Header.Set(name, value)
	}
	if in.MaxAmount != "" {
		if _, err := money.ParseText(in.MaxAmount); err != nil {
			return nil, fmt.Errorf("max_amount: %w", err)
		}
		r.Header.Set("Purser-Max-Amount", in.MaxAmount)
	}
	if k := in.IdempotencyKey; k != "" {
		if len(k) > 255 || strings.ContainsFunc(k, func(c rune) bool { return c <= ' ' || c > '~' }) {
			return nil, errors.New("idempotency_key: 1 to 255 visible ASCII characters, without spaces")
		}
		r.Header.Set("Idempotency-Key", k)
	}
	return r, nil
}

// parseTarget reads a URL. Its errors do not repeat what may be a password.
func parseTarget(text string) (*url.URL, error) {
	target, err := url.Parse(text)
	if err != nil || target.Host == "" || target.Scheme != "http" && target.Scheme != "https" {
		return nil, errors.New("url: it is not an http or https URL")
	}
	return target, nil
}

// again tells an agent how it repeats a request.
func (in fetchInput) again() string {
	if in.IdempotencyKey != "" {
		return fmt.Sprintf("repeat it with the idempotency_key %q: it is paid at most once", in.IdempotencyKey)
	}
	return "repeat it with the same arguments: purser does not pay twice for a request whose answer was lost"
}

func (in fetchInput) unanswered(err error) error {
	of, is := errors.AsType[*agent.Refused](err)
	switch {
	case errors.Is(err, agent.ErrUnknownKey) || is && of.Code < http.StatusInternalServerError:
		return err
	case is:
		return fmt.Errorf("%w; %s", err, in.again())
	}
	return fmt.Errorf("%w; it may have been paid: %s", err, in.again())
}

func (in fetchInput) brokenOff(err error, p *paid) error {
	if p == nil {
		return fmt.Errorf("the answer broke off: %w", err)
	}
	return fmt.Errorf("the answer broke off: %w; %s was paid for it (payment %s): %s", err, p.Amount, p.Payment, in.again())
}

// declined returns the reason for a 402 that was not paid, or not answered, as an error.
func declined(resp *http.Response) error {
	if resp.StatusCode != http.StatusPaymentRequired {
		return nil
	}
	reason, detail := resp.Header.Get("Purser-Declined"), resp.Header.Get("Purser-Declined-Detail")
	if reason == "" {
		return errors.New("not paid: the API answered 402, with no x402 challenge that purser can read, or its HTTPS is not opened by purser")
	}
	text := "not paid: " + reason
	if detail != "" {
		text += ": " + detail
	}
	if p := paidOf(resp.Header); p != nil {
		text += fmt.Sprintf(" (payment %s of %s)", p.Payment, p.Amount)
	}
	if after := resp.Header.Get("Retry-After"); after != "" {
		text += fmt.Sprintf(" (may be repeated after %s s)", after)
	}
	return errors.New(text)
}

// paidOf reads what purser says that it paid: nil if nothing.
func paidOf(h http.Header) *paid {
	p := &paid{Payment: h.Get("Purser-Payment"), Transaction: h.Get("Purser-Transaction")}
	if p.Payment == "" {
		return nil
	}
	if a, err := money.Parse(h.Get("Purser-Amount")); err == nil {
		p.Amount = money.Text(a)
	}
	return p
}

// selected returns the headers that tell an agent something.
func selected(h http.Header) map[string]string {
	some := map[string]string{}
	for name := range h {
		if slices.Contains([]string{
			"Content-Type", "Content-Disposition", "Location", "Link", "Retry-After", "Etag", "Last-Modified", "Www-Authenticate", "Allow",
		}, name) {
			some[name] = strings.Join(h[name], ", ")
		}
	}
	return some
}

// maxRest bounds what is read of a body that is cut: an answer that was read to its end is delivered.
const maxRest = 64 << 20

// readBody reads a body, at most n bytes of it, and reports whether it is longer.
func readBody(body io.Reader, n int) (text []byte, cut bool, err error) {
	text, err = io.ReadAll(io.LimitReader(body, int64(n)+1))
	if err != nil || len(text) <= n {
		return text, false, err
	}
	_, _ = io.CopyN(io.Discard, body, maxRest)
	return text[:n], true, nil
}
