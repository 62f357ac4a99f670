// The bar of sections, where it is wider than the window: a sign at its end for as long as there is more to the right.
const bar = document.querySelector("nav"), list = bar.querySelector("ol");
const signMore = () => bar.classList.toggle("more", list.scrollLeft + list.clientWidth < list.scrollWidth - 2);
list.addEventListener("scroll", signMore, { passive: true });
window.addEventListener("resize", signMore);
signMore();
