package forward

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"

	"github.com/purserpay/purser/internal/guard"
)

// pacPath answers a file that tells browsers and systems to use this proxy.
const pacPath = "/proxy.pac"

// PAC serves a proxy auto-configuration file to every client, and leaves other requests to next. It names the proxy
// as its client does.
func PAC(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != pacPath || r.Method != http.MethodGet && r.Method != http.MethodHead {
			next.ServeHTTP(w, r)
			return
		}
		kind, port := "PROXY", uint64(80)
		if r.TLS != nil {
			kind, port = "HTTPS", 443
		}
		host, given, err := net.SplitHostPort(r.Host)
		if err != nil {
			host, given = strings.Trim(r.Host, "[]"), strconv.FormatUint(port, 10)
		}
		name, err := guard.NormalHost(host)
		port, portErr := strconv.ParseUint(given, 10, 16)
		if cmp.Or(err, portErr) != nil {
			http.Error(w, "the request has no usable Host", http.StatusBadRequest)
			return
		}
		to, _ := json.Marshal(kind + " " + net.JoinHostPort(name, strconv.FormatUint(port, 10)))
		w.Header().Set("Content-Type", "application/x-ns-proxy-autoconfig")
		w.Header().Set("Cache-Control", "no-cache")
		_, _ = fmt.Fprintf(w, `function FindProxyForURL(url, host) {
  if (host === "localhost" || shExpMatch(host, "127.*") || host === "::1" || host === "[::1]") return "DIRECT";
  return %s;
}
`, to)
	})
}
