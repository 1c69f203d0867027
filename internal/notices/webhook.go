package notices

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/purserpay/purser/internal/guard"
)

const (
	// sendTime bounds one delivery, from the connection to the end of the answer.
	sendTime = 10 * time.Second
	// maxAnswer bounds what is read of a receiver's answer, and maxWords what is kept of it.
	maxAnswer = 4 << 10
	maxWords  = 200
	// maxSecrets bounds the secrets that sign a message: the new and the old one of a rotation.
	maxSecrets = 3
)

// ParseSecrets reads secrets of Standard Webhooks: whsec_ and 24 to 64 bytes in base64.
func ParseSecrets(texts []string) (signers []*standardwebhooks.Webhook, err error) {
	if len(texts) > maxSecrets {
		return nil, fmt.Errorf("at most %d secrets", maxSecrets)
	}
	for _, text := range texts {
		encoded, found := strings.CutPrefix(text, "whsec_")
		raw, err := base64.StdEncoding.DecodeString(encoded)
		if !found || err != nil || len(raw) < 24 || len(raw) > 64 {
			return nil, errors.New(`not whsec_ and 24 to 64 bytes in base64; make one with: echo "whsec_$(openssl rand -base64 32)"`)
		}
		signer, err := standardwebhooks.NewWebhookRaw(raw)
		if err != nil {
			return nil, errors.New("not a secret of Standard Webhooks")
		}
		signers = append(signers, signer)
	}
	return signers, nil
}

// answer holds the answer of a receiver to a delivery.
type answer struct {
	status int    // of HTTP or SMTP; 0: none came
	words  string // for people; never an address
	// ok: it was taken. refused: another try will not be taken either. stop: the receiver wants none any
	// more.
	ok, refused, stop bool
	after             time.Duration // the receiver asks for this much time
}

func (a answer) String() string { return a.words }

// newClient makes the client of all webhooks. It follows no redirects.
func newClient(dialer *guard.Dialer) *http.Client {
	return &http.Client{
		Timeout:       sendTime,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			DialContext: dialer.DialContext, ForceAttemptHTTP2: true, MaxIdleConnsPerHost: 1, IdleConnTimeout: 30 * time.Second,
			TLSHandshakeTimeout: sendTime, MaxResponseHeaderBytes: 64 << 10,
		},
	}
}

// post sends a message to a webhook.
func (s *Sender) post(ctx context.Context, d Destination, m message) answer {
	body, err := m.body(d.Format)
	if err != nil {
		return answer{words: "the message cannot be written: " + err.Error(), refused: true}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, d.url.String(), bytes.NewReader(body))
	if err != nil {
		return answer{words: "the address cannot be used", refused: true}
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "purser")
	if err := s.sign(req, m.ID, body); err != nil {
		return answer{words: "the message cannot be signed", refused: true}
	}
	hide := func(said string) string { return d.redact(said, m.approve) }
	resp, err := s.client.Do(req)
	if err != nil {
		return answer{words: failure(err, hide)}
	}
	defer resp.Body.Close()
	said, _ := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	return judge(resp, hide, string(said))
}

func (s *Sender) sign(req *http.Request, id string, body []byte) error {
	if len(s.signers) == 0 {
		return nil
	}
	at := s.now()
	var all []string
	for _, signer := range s.signers {
		one, err := signer.Sign(id, at, body)
		if err != nil {
			return err
		}
		all = append(all, one)
	}
	req.Header.Set(standardwebhooks.HeaderWebhookID, id)
	req.Header.Set(standardwebhooks.HeaderWebhookTimestamp, strconv.FormatInt(at.Unix(), 10))
	req.Header.Set(standardwebhooks.HeaderWebhookSignature, strings.Join(all, " "))
	return nil
}

// judge reads a receiver's answer.
func judge(resp *http.Response, hide func(string) string, said string) answer {
	a := answer{status: resp.StatusCode, words: clean(hide(resp.Status), maxWords)} // its phrase is the receiver's
	switch code := resp.StatusCode; {
	case code >= 200 && code < 300:
		a.ok = true
		return a
	case code >= 300 && code < 400:
		a.refused, a.words = true, a.words+"; purser follows no redirects"
		return a
	case code == http.StatusGone:
		a.refused, a.stop = true, true
	case code == http.StatusTooManyRequests, code == http.StatusRequestTimeout:
	case code >= 400 && code < 500:
		a.refused = true
	}
	if n, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && n > 0 {
		a.after = min(time.Duration(n)*time.Second, maxWait)
	}
	if words := clean(hide(said), maxWords); words != "" && strings.HasPrefix(resp.Header.Get("Content-Type"), "text/plain") {
		a.words += ": " + words
	}
	return a
}

// redact takes the secret parts of the address, and of a signed link, out of a receiver's words.
func (d Destination) redact(text, link string) string {
	_, token, _ := strings.Cut(link, "#")
	parts := []string{token, d.url.String(), d.url.RequestURI(), d.url.RawQuery, d.url.EscapedPath()}
	parts = append(parts, strings.Split(d.url.Path, "/")...)
	parts = append(parts, strings.Split(d.url.EscapedPath(), "/")...)
	for _, values := range d.url.Query() {
		parts = append(parts, values...)
	}
	for _, p := range parts {
		if len(p) >= 8 {
			text = strings.ReplaceAll(text, p, "…")
		}
	}
	return text
}

// failure says why there was no answer, without the address. The error may repeat words of the receiver,
// in which hide hides secrets.
func failure(err error, hide func(string) string) string {
	if denied, is := errors.AsType[*guard.DeniedError](err); is {
		return "purser may not connect to this address (" + string(denied.Verdict) + "); see PURSER_ALLOW_ADDRESSES"
	}
	if u, is := errors.AsType[*url.Error](err); is {
		err = u.Err
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return fmt.Sprintf("no answer in %s", sendTime)
	}
	return clean(hide(err.Error()), maxWords)
}
