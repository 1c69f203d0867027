package session

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"
)

const (
	// providerTime bounds one call of the provider, with the body of its answer.
	providerTime = 10 * time.Second
	// maxProviderAnswer bounds the body of an answer, in bytes.
	maxProviderAnswer = 1 << 20
	// maxProviderHeader bounds the header of an answer, in bytes.
	maxProviderHeader = 256 << 10
	// maxRedirects bounds the redirects of a GET.
	maxRedirects = 3
)

var errHuge = errors.New("the answer is too large")

// newClient returns the client that calls the provider. It copies the given one, if that is not
// nil.
func newClient(given *http.Client) *http.Client {
	c := &http.Client{}
	if given != nil {
		*c = *given
	}
	if c.Transport == nil {
		c.Transport = &http.Transport{
			DialContext:            (&net.Dialer{Timeout: 5 * time.Second}).DialContext,
			ForceAttemptHTTP2:      true,
			TLSHandshakeTimeout:    5 * time.Second,
			MaxResponseHeaderBytes: maxProviderHeader,
			MaxIdleConns:           4,
			IdleConnTimeout:        30 * time.Second,
		}
	}
	c.Transport = bounded{c.Transport}
	if c.Timeout <= 0 || c.Timeout > providerTime {
		c.Timeout = providerTime
	}
	c.CheckRedirect = checkRedirect
	c.Jar = nil
	return c
}

// checkRedirect follows redirects of GETs only. A POST contains the client's secret, which must not
// go to another host.
func checkRedirect(to *http.Request, via []*http.Request) error {
	if via[0].Method != http.MethodGet {
		return http.ErrUseLastResponse
	}
	if len(via) > maxRedirects {
		return errors.New("too many redirects")
	}
	if via[0].URL.Scheme == "https" && to.URL.Scheme != "https" {
		return errors.New("redirected from https to http")
	}
	return checkSecure(to.URL)
}

// checkSecure refuses URLs whose answers could be forged on the way.
func checkSecure(u *url.URL) error {
	switch {
	case u.Host == "" || u.Scheme != "https" && u.Scheme != "http":
		return errors.New("not an http or https URL")
	case u.Scheme == "http" && !loopback(u.Host):
		return errors.New("plain http is for loopback only")
	}
	return nil
}

// bounded is a transport with bounded answers.
type bounded struct{ next http.RoundTripper }

// CloseIdleConnections lets http.Client close idle connections.
func (b bounded) CloseIdleConnections() {
	if c, ok := b.next.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// RoundTrip implements http.RoundTripper.
func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := b.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if resp.ContentLength > maxProviderAnswer {
		_ = resp.Body.Close()
		return nil, fmt.Errorf("%s: %w", r.URL.Path, errHuge)
	}
	resp.Body = &boundedBody{resp.Body, maxProviderAnswer}
	return resp, nil
}

// boundedBody fails when it is too long, so that half an answer is never used.
type boundedBody struct {
	io.ReadCloser
	left int
}

func (b *boundedBody) Read(p []byte) (int, error) {
	if len(p) > b.left+1 {
		p = p[:b.left+1]
	}
	n, err := b.ReadCloser.Read(p)
	if b.left -= n; b.left < 0 {
		return 0, errHuge
	}
	return n, err
}
