package session

import (
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
)

// place is the dashboard's address as the visitor's browser sees it.
type place struct {
	origin string // such as https://purser.example.com
	secure bool   // https all the way to the browser, as far as purser knows
}

// refusal holds the page for a request that is not served.
type refusal struct {
	status int
	notice Notice
}

// public is the parsed public URL.
type public struct {
	origin string // "" without one
	host   string // in lower case, without the scheme's default port
	secure bool
	plain  bool // http, and not on loopback
}

// parsePublic reads the public URL.
func parsePublic(given string) (public, error) {
	if given == "" {
		return public{}, nil
	}
	u, err := url.Parse(given)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil {
		return public{}, fmt.Errorf("PURSER_PUBLIC_URL: not an address such as https://purser.example.com")
	}
	host := canonical(u.Scheme, u.Host)
	return public{
		origin: u.Scheme + "://" + host, host: host, secure: u.Scheme == "https",
		plain: u.Scheme == "http" && !loopback(host),
	}, nil
}

// noPath refuses a public URL with a path, where the dashboard cannot be.
func noPath(given string) error {
	if u, err := url.Parse(given); err == nil && (strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "") {
		return fmt.Errorf("PURSER_PUBLIC_URL: the dashboard is at /dashboard of a host of its own: leave out what follows the host")
	}
	return nil
}

// canonical returns a host as browsers write it: in lower case, without the scheme's default port.
func canonical(scheme, host string) string {
	host = strings.ToLower(host)
	if port := map[string]string{"http": ":80", "https": ":443"}[scheme]; strings.HasSuffix(host, port) {
		return strings.TrimSuffix(host, port)
	}
	return host
}

// loopback reports whether every browser reads a host, with or without a port, as its own machine.
func loopback(host string) bool {
	name := strings.ToLower((&url.URL{Host: host}).Hostname())
	if name == "localhost" {
		return true
	}
	addr, err := netip.ParseAddr(name)
	return err == nil && addr.Zone() == "" && addr.Unmap().IsLoopback()
}

// where finds the dashboard's address in the visitor's browser. It ignores forwarding headers,
// because any client can send them. Behind a proxy that ends TLS, the public URL says what the
// browser sees.
func (g *Gate) where(r *http.Request) (place, *refusal) {
	if g.public.origin != "" {
		if canonical(scheme(g.public.secure), r.Host) != g.public.host {
			return place{}, &refusal{http.StatusMisdirectedRequest, Notice{
				Title: "The dashboard has another address",
				Text: "It is at " + g.public.origin + ". If that is what your browser shows, the proxy in front of purser " +
					"has to pass on the Host header as it came.",
				Action: "Go there", ActionURL: g.public.origin + Home,
			}}
		}
		if g.public.plain {
			return place{}, plainHTTP()
		}
		return place{g.public.origin, g.public.secure}, nil
	}
	if !loopback(r.Host) {
		switch {
		case g.opts.LoopbackOnly:
			return place{}, &refusal{http.StatusMisdirectedRequest, Notice{
				Title: "This name is not purser's",
				Text: "Purser listens on this machine only, and is asked for by its address or as localhost. For another name, " +
					"set PURSER_PUBLIC_URL.",
			}}
		case r.TLS == nil:
			return place{}, plainHTTP()
		}
		return place{}, &refusal{http.StatusMisdirectedRequest, Notice{
			Title: "The dashboard's address is not known",
			Text:  "Set PURSER_PUBLIC_URL to the address that people reach purser by, such as https://purser.example.com.",
		}}
	}
	u, err := url.Parse("//" + r.Host)
	if err != nil || u.User != nil || u.Host != r.Host {
		return place{}, &refusal{http.StatusBadRequest, Notice{Title: "Not understood", Text: "The Host header is not an address."}}
	}
	secure := r.TLS != nil
	return place{scheme(secure) + "://" + canonical(scheme(secure), r.Host), secure}, nil
}

func scheme(secure bool) string {
	if secure {
		return "https"
	}
	return "http"
}

func plainHTTP() *refusal {
	return &refusal{http.StatusForbidden, Notice{
		Title: "The dashboard needs https",
		Text: "Over plain http, everybody between your browser and purser could read your session and use it. Put purser behind " +
			"a proxy that speaks https and set PURSER_PUBLIC_URL to its address, or open the dashboard on the machine that " +
			"purser runs on.",
	}}
}
