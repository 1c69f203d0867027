package forward

import (
	"encoding/pem"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/purserpay/purser/internal/testing/needed"
)

// Many programs make a connection for each request, count the bytes of an answer, and close the connection at the last
// byte. They have their answers, and each of their calls is a purchase.
func TestProgramsThatCloseAtTheLastByte(t *testing.T) {
	t.Parallel()
	const urllib = `
import os, ssl, urllib.error, urllib.request
trust = ssl.create_default_context(cafile=os.environ["CA"])
proxies = urllib.request.ProxyHandler({"http": os.environ["VIA"], "https": os.environ["VIA"]})
opener = urllib.request.build_opener(proxies, urllib.request.HTTPSHandler(context=trust))
for _ in range(8):
    try:
        answer = opener.open(os.environ["SHOP"], timeout=20)
    except urllib.error.HTTPError as error:
        answer = error
    print(answer.status, len(answer.read()))
`
	const curl = `for i in 1 2 3 4 5 6 7 8; do curl -sS -m 20 -x "$VIA" --cacert "$CA" %s -o "$CA.out" -w '%%{http_code} %%{size_download}\n' "$SHOP"; done`
	for name, program := range map[string][]string{
		"curl":           {"sh", "-c", fmt.Sprintf(curl, "")},
		"curl, HTTP/1.1": {"sh", "-c", fmt.Sprintf(curl, "--http1.1")},
		"curl, closing":  {"sh", "-c", fmt.Sprintf(curl, "--http1.1 -H 'Connection: close'")},
		"urllib":         {"python3", "-c", urllib},
	} {
		for _, absolute := range []bool{true, false} {
			for _, size := range []int{-1, 0, 1, 600, 100_000} { // -1: the end is not announced
				t.Run(fmt.Sprintf("%s, absolute %t, %d bytes", name, absolute, size), func(t *testing.T) {
					t.Parallel()
					for _, needs := range []string{"curl", "python3"} {
						if _, err := exec.LookPath(needs); err != nil {
							needed.Missing(t, "no %s", needs)
						}
					}
					w := way{absolute: absolute}.world(t, func(s *setup) { s.forward.MaxFailures, s.pay.Failures.ForNothing = -1, -1 }) // empty answers count
					w.seller.Paid = func(rw http.ResponseWriter, _ *http.Request, n int) {
						w.seller.Receipt(rw, n)
						if size >= 0 {
							rw.Header().Set("Content-Length", strconv.Itoa(size))
						}
						_, _ = rw.Write(make([]byte, max(size, 0)))
						if size < 0 {
							_ = http.NewResponseController(rw).Flush()
						}
					}
					ca := filepath.Join(t.TempDir(), "ca")
					root := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: w.ours.root.Raw})
					if err := os.WriteFile(ca, root, 0o600); err != nil {
						t.Fatal(err)
					}
					cmd := exec.CommandContext(bounded(t, time.Minute), program[0], program[1:]...)
					cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "CA=" + ca, "VIA=http://" + w.Secret + ":x@" + w.addr(), "SHOP=" + w.shop("/x")}
					out, err := cmd.CombinedOutput()
					if err != nil {
						t.Fatalf("%v: %s", err, out)
					}
					if want := strings.Repeat(fmt.Sprintf("200 %d\n", max(size, 0)), 8); string(out) != want {
						t.Errorf("%s", out)
					}
					for _, p := range w.Payments() {
						if p := w.Closed(p.ID); !p.Answered {
							t.Error("an answer that was read in full does not count")
						}
					}
				})
			}
		}
	}
}
