package session

import (
	"errors"
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

// cookie returns the name of a cookie here. A browser accepts __Host- only over https, and sends it
// only to the same host.
func (at place) cookie(name string) string {
	if at.secure {
		return "__Host-" + name
	}
	return name
}

// parsePublic reads the public URL. Without one it returns the zero place.
func parsePublic(given string) (place, error) {
	if given == "" {
		return place{}, nil
	}
	u, err := url.Parse(given)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil {
		return place{}, errors.New("PURSER_PUBLIC_URL: not an address such as https://purser.example.com")
	}
	return placeOf(u.Host, u.Scheme == "https"), nil
}

func placeOf(host string, secure bool) place {
	scheme, port := "http", ":80"
	if secure {
		scheme, port = "https", ":443"
	}
	// Browsers write a host in lower case, without the scheme's default port.
	return place{scheme + "://" + strings.TrimSuffix(strings.ToLower(host), port), secure}
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
	known := g.public != place{}
	at := placeOf(r.Host, r.TLS != nil)
	if known {
		at = placeOf(r.Host, g.public.secure)
	}
	switch local := loopback(r.Host); {
	case known && at != g.public:
		return place{}, &refusal{status: http.StatusMisdirectedRequest, Notice: Notice{
			Title: "The dashboard has another address",
			Text: "It is at " + g.public.origin + ". If that is what your browser shows, the proxy in front of purser " +
				"has to pass on the Host header as it came.",
			Action: "Go there", ActionURL: g.public.origin + Home,
		}}
	case local || known && at.secure:
		return at, nil
	case !known && g.opts.LoopbackOnly:
		return place{}, &refusal{status: http.StatusMisdirectedRequest, Notice: Notice{
			Title: "This name is not purser's",
			Text: "Purser listens on this machine only, and is asked for by its address or as localhost. For another name, " +
				"set PURSER_PUBLIC_URL.",
		}}
	case at.secure:
		return place{}, &refusal{status: http.StatusMisdirectedRequest, Notice: Notice{
			Title: "The dashboard's address is not known",
			Text:  "Set PURSER_PUBLIC_URL to the address that people reach purser by, such as https://purser.example.com.",
		}}
	}
	return place{}, &refusal{status: http.StatusForbidden, Notice: Notice{
		Title: "The dashboard needs https",
		Text: "Over plain http, everybody between your browser and purser could read your session and use it. Put purser behind " +
			"a proxy that speaks https and set PURSER_PUBLIC_URL to its address, or open the dashboard on the machine that " +
			"purser runs on.",
	}}
}
