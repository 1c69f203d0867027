package dashboard

// Patterns lists the routes that need a visitor.
func Patterns() []string {
	var list []string
	for p := range (&dashboard{}).views() {
		list = append(list, p)
	}
	return append(list, "GET /dashboard/spend.csv")
}
