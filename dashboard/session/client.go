package session

import (
	"errors"
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

// newClient returns the client that calls the provider. It ignores the proxy variables of the
// environment, which may name purser itself.
func newClient(timeout time.Duration) *http.Client {
	return &http.Client{Timeout: timeout, CheckRedirect: checkRedirect, Transport: bounded{&http.Transport{
		DialContext:            (&net.Dialer{Timeout: 5 * time.Second}).DialContext,
		ForceAttemptHTTP2:      true,
		TLSHandshakeTimeout:    5 * time.Second,
		MaxResponseHeaderBytes: maxProviderHeader,
		MaxIdleConns:           4,
		IdleConnTimeout:        30 * time.Second,
	}}}
}

// checkRedirect follows redirects of GETs only. A POST contains the client's secret, which must not
// go to another host.
func checkRedirect(to *http.Request, via []*http.Request) error {
	switch {
	case via[0].Method != http.MethodGet:
		return http.ErrUseLastResponse
	case len(via) > maxRedirects:
		return errors.New("too many redirects")
	case via[0].URL.Scheme == "https" && to.URL.Scheme != "https":
		return errors.New("redirected from https to http")
	}
	return checkSecure(to.URL.String())
}

// checkSecure refuses URLs whose answers could be forged on the way.
func checkSecure(address string) error {
	u, err := url.Parse(address)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http":
		return errors.New("not an http or https URL")
	case u.Scheme == "http" && !loopback(u.Host):
		return errors.New("plain http is for loopback only")
	}
	return nil
}

// bounded is a transport whose answers fail when they are too long, so that half an answer is never
// used.
type bounded struct{ *http.Transport }

// RoundTrip implements http.RoundTripper.
func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := b.Transport.RoundTrip(r)
	if err == nil {
		resp.Body = http.MaxBytesReader(nil, resp.Body, maxProviderAnswer)
	}
	return resp, err
}
