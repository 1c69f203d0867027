package caddymodule

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/purserpay/purser/pay"
)

// Many programs make a connection for each request, count the bytes of an answer, and close the connection at the last
// byte. They have their answers, over HTTP/1.1 and HTTP/2 inside TLS, and each of their calls is a purchase.
func TestProgramsThatCloseAtTheLastByte(t *testing.T) {
	const urllib = `
import os, ssl, urllib.error, urllib.request
trust = ssl.create_default_context()
trust.check_hostname, trust.verify_mode = False, ssl.CERT_NONE
opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=trust))
for _ in range(8):
    try:
        answer = opener.open(os.environ["SITE"], timeout=20)
    except urllib.error.HTTPError as error:
        answer = error
    answer.read()
    print(answer.status)
`
	const curl = `for i in 1 2 3 4 5 6 7 8; do curl -sS -k -m 20 %s -o /dev/null -w '%%{http_code}\n' "$SITE"; done`
	v := newVendor(t)
	v.delivers(func(w http.ResponseWriter, r *http.Request, n int) {
		v.receipt(w, n)
		size, _ := strconv.Atoi(filepath.Base(r.URL.Path))
		w.Header().Set("Content-Length", strconv.Itoa(size))
		_, _ = w.Write(make([]byte, size))
	})
	for name, s := range sidecars(t, v) {
		s.global = "local_certs\n\tskip_install_trust\n\tauto_https disable_redirects"
		s.app += "\n\t\tpause_host_after off" // empty answers count as failures
		text := replaceOnce(t, s.caddyfile(), "http://:", "https://localhost:")
		for _, block := range []string{"purser_upstream {", "transport purser {"} {
			text = strings.Replace(text, block, block+"\n\t\t\tmax_failures off", 1)
		}
		mustLoad(t, text)
		at := fmt.Sprintf("https://localhost:%d", s.port)
		eventually(t, "the certificate is made", func() bool { return exec.CommandContext(t.Context(), "curl", "-sk", at+"/health").Run() == nil })
		paid := len(payments(t))
		for program, command := range map[string][]string{
			"curl": {"sh", "-c", fmt.Sprintf(curl, "")}, "curl, closing": {"sh", "-c", fmt.Sprintf(curl, "--http1.1 -H 'Connection: close'")}, "urllib": {"python3", "-c", urllib},
		} {
			for _, size := range []string{"/0", "/1", "/600", "/100000"} {
				cmd := exec.CommandContext(t.Context(), command[0], command[1:]...)
				cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "SITE=" + at + size}
				out, err := cmd.CombinedOutput()
				if want := strings.Repeat("200\n", 8); err != nil || string(out) != want {
					t.Errorf("%s, %s, %s: %v %s", name, program, size, err, out)
				}
				if paid += 8; len(payments(t)) != paid {
					t.Errorf("%s, %s, %s: %d payments, want %d", name, program, size, len(payments(t)), paid)
				}
			}
		}
		eventually(t, "all attempts have ended with their answers", func() bool {
			return !slices.ContainsFunc(payments(t), func(p *pay.Payment) bool { return p.Lease.Owner != "" || !p.Answered })
		})
	}
}
