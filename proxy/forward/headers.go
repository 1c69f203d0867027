package forward

import (
	"crypto/subtle"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/purserpay/purser/internal/failpoint"
)

// looped reports whether a request has been through this proxy already.
func looped(h http.Header, pseudonym string) bool {
	for _, line := range h.Values("Via") {
		for entry := range strings.SplitSeq(line, ",") {
			if fields := strings.Fields(entry); len(fields) >= 2 && fields[1] == pseudonym {
				return true
			}
		}
	}
	return false
}

// addVia names us by a pseudonym that only this process has, so that several pursers can stand in a
// row. proto is what the message came in, such as HTTP/1.1.
func addVia(h http.Header, proto, pseudonym string) {
	h["Via"] = append(h["Via"], strings.TrimPrefix(proto, "HTTP/")+" "+pseudonym)
}

// forwarded reports whether another proxy forwarded the request.
func forwarded(h http.Header) bool {
	for name := range h {
		if name == "Forwarded" || name == "Via" || name == "X-Real-Ip" || strings.HasPrefix(name, "X-Forwarded-") {
			return true
		}
	}
	return false
}

// cleanOutbound takes out what must not go upstream, beside the hop-by-hop headers: what is for
// proxies, what is about the client's side, purser's own headers, and purser's own keys.
func cleanOutbound(h http.Header, secrets []string) {
	if failpoint.Off(failpoint.Strip) {
		return
	}
	maps.DeleteFunc(h, func(name string, _ []string) bool {
		return strings.HasPrefix(name, "Proxy-") || strings.HasPrefix(name, "X-Forwarded-") || strings.HasPrefix(name, "Purser-")
	})
	for _, name := range []string{"Forwarded", "X-Real-Ip", "Expect", "Keep-Alive", "Alt-Used"} {
		h.Del(name)
	}
	StripSecrets(h, secrets...)
}

// StripSecrets takes out API keys of purser's, in the headers that clients of its API send
// them in. Other values of those headers stay.
func StripSecrets(h http.Header, secrets ...string) {
	for _, name := range []string{"X-Api-Key", "Authorization"} {
		if values := h[name]; slices.ContainsFunc(values, holds(secrets)) {
			if values = slices.DeleteFunc(slices.Clone(values), holds(secrets)); len(values) == 0 {
				delete(h, name)
			} else {
				h[name] = values
			}
		}
	}
}

// holds recognizes header values that are one of the secrets, by itself or as a bearer's.
func holds(secrets []string) func(value string) bool {
	return func(value string) bool {
		value = strings.TrimSpace(value)
		if scheme, token, ok := strings.Cut(value, " "); ok && strings.EqualFold(scheme, "Bearer") {
			value = strings.TrimSpace(token)
		} else if user, _, ok := basicCredentials(value); ok {
			value = user
		}
		return slices.ContainsFunc(secrets, func(secret string) bool {
			return secret != "" && subtle.ConstantTimeCompare([]byte(value), []byte(secret)) == 1
		})
	}
}

// keepWebSocketOnly takes out upgrades to anything but WebSocket: what such a connection
// would carry is not HTTP requests that could be looked at.
func keepWebSocketOnly(h http.Header) {
	if u := h.Get("Upgrade"); u != "" && !strings.EqualFold(u, "websocket") {
		h.Del("Upgrade")
		h.Del("Connection")
		h.Del("Http2-Settings")
	}
}
