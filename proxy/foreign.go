package proxy

import (
	"mime"
	"net/http"
	"slices"
	"strings"

	"github.com/purserpay/purser/x402"
)

// isPaywall reports whether a 402 is a page for people. Sellers of version 1 show it in place of the challenge to
// clients that look like browsers, as agents' fetch tools do.
func isPaywall(req *http.Request, resp *http.Response) bool {
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	return kind == "text/html" && slices.Contains([]string{http.MethodGet, http.MethodHead}, methodOf(req))
}

// behindPaywall asks the seller once more, unpaid, for something that programs read. Without a challenge in
// its answer everything stays as it was.
func (t *Transport) behindPaywall(req *http.Request, call *Call, page *http.Response, seen *sendTrace) (
	*http.Response, *sendTrace, x402.Challenge, bool, error,
) {
	out := req.WithContext(req.Context())
	out.Header = req.Header.Clone()
	out.Header.Set("Accept", "application/json")
	call.cookies.send(out)
	again := new(sendTrace)
	resp, _, err := t.pass(out, again)
	if err != nil {
		t.log.InfoContext(req.Context(), "402 with a page, and no answer to a program", "host", req.URL.Host, "error", err)
		return page, seen, x402.Challenge{}, false, nil
	}
	if resp.StatusCode == http.StatusPaymentRequired {
		if challenge, found, problem := readChallenge(resp, t.extra); found {
			call.cookies.take(req, resp)
			closeBody(page)
			return resp, again, challenge, true, problem
		}
	}
	closeBody(resp)
	return page, seen, x402.Challenge{}, false, nil
}

// declineForeign hands a 402 without a challenge on as it is, with a reason. Its body may mean something to
// the client that has nothing to do with purser.
func (t *Transport) declineForeign(req *http.Request, resp *http.Response) (*http.Response, string, error) {
	e := Explain(DeclinedNoChallenge)
	if seen := asksFor(resp.Header); seen != "" {
		e.Detail += ": it asks for " + seen
	}
	t.tellDeclined(req, e.Reason, e.Detail, nil, nil)
	e.Detail = printable(e.Detail)
	t.logDeclined(req, e, nil)
	mark(req, resp.Header, e.Reason, e.Detail, notPaid+e.Detail)
	return resp, ResultDeclined, nil
}

// asksFor names another way to pay than x402 by the headers of a 402; "" if none is known.
func asksFor(h http.Header) string {
	for _, value := range h.Values("WWW-Authenticate") {
		scheme, rest, _ := strings.Cut(strings.TrimSpace(value), " ")
		switch strings.ToLower(scheme) {
		case "payment":
			for _, method := range []string{"tempo", "evm", "usdc", "solana", "stripe", "card", "lightning"} {
				if strings.Contains(strings.ToLower(rest), `method="`+method+`"`) {
					return "MPP (" + method + ")"
				}
			}
			return "MPP"
		case "l402", "lsat":
			return "L402 (Lightning)"
		}
	}
	if h.Get("Crawler-Price") != "" {
		return "Cloudflare's pay per crawl"
	}
	return ""
}
