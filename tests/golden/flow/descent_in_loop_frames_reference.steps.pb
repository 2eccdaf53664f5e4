
°
0feed*
targetx:0*“
value‰B†"x]õ^?vÊ	¿ –è>ãÞ¬?P5Í?gdJ?±‡Ú¿‰Pß½’0é½S­p¿Ú’?"¿ñ‡?’¿<¿§ó^¿g;?vF5?öéË¿ðÞ¾Ð»o¿¥Ë“½éŠ>ç×ú¿Æ]>šÀÄšÂ¾­U¿°pœ?@&¾

1run*
targetinit

2run*
targettrain
T
3fetch*
target	fetched:0*1
value(B&"Š?šñ*>HEñ=;Ú„>/Ò=Ê«w¾

4run*
targettrain
T
5fetch*
target	fetched:0*1
value(B&"ËˆÝ>YJ>Cí9>{Â2>òY!>¢ò¾