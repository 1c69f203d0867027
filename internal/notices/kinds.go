package notices

import (
	"fmt"
	"slices"
	"strings"

	"github.com/purserpay/purser/pay"
)

// noisy lists the kinds that are not sent unless they are asked for.
var noisy = []pay.NoticeKind{pay.NoticeBudget50, pay.NoticeDeclined, pay.NoticeNewHost}

// ParseKinds reads which kinds are sent: names, all, or budget for all three of them. No names: all but
// budget-50, declined and new-host.
func ParseKinds(names []string) (wants func(pay.NoticeKind) bool, err error) {
	if len(names) == 0 {
		return func(k pay.NoticeKind) bool { return !slices.Contains(noisy, k) }, nil
	}
	all := pay.NoticeKinds()
	var chosen []pay.NoticeKind
	for _, name := range names {
		matching := slices.DeleteFunc(slices.Clone(all), func(k pay.NoticeKind) bool {
			return name != "all" && string(k) != name && (name != "budget" || !strings.HasPrefix(string(k), "budget-"))
		})
		if len(matching) == 0 {
			return nil, fmt.Errorf("%q is no kind of notice; there are all, budget, %s", name, listed(all))
		}
		chosen = append(chosen, matching...)
	}
	return func(k pay.NoticeKind) bool { return slices.Contains(chosen, k) }, nil
}

func listed(kinds []pay.NoticeKind) string {
	var list []string
	for _, k := range kinds {
		list = append(list, string(k))
	}
	return strings.Join(list, ", ")
}
